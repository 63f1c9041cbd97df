# SPDX-License-Identifier: MIT
# Live views and reports of loaders.
import gc
import os
import pty
import subprocess
import sys
import threading

import feedline_test_module as fl
import pytest


def in_terminal(code):
    """What a program shows on a terminal of 100 by 40 characters."""
    ours, its = pty.openpty()
    import fcntl
    import struct
    import termios
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    program = subprocess.Popen([sys.executable, "-c", "import feedline_test_module as fl, time\n" + code], stdin=its, stdout=its, stderr=its,
                               env={**os.environ, "TERM": "xterm"})
    os.close(its)
    shown = b""
    try:
        while part := os.read(ours, 65536):
            shown += part
    except OSError:  # the terminal's other end is closed
        pass
    os.close(ours)
    assert program.wait(60) == 0, shown
    return shown.decode()


def test_a_live_view_shows_the_stages_of_each_pass():
    shown = in_terminal("""
loader = fl.Numbers(400, epochs=1)
with loader.live_view(every=0.02):
    for p in range(2):
        for batch in loader: time.sleep(0.002)
print("after it")
""")
    assert "map `check`" in shown and shown.count("\x1b") > 20
    assert shown.rstrip().endswith("after it") or "after it" in shown[-200:]


def test_without_a_terminal_it_prints_lines():
    code = "import feedline_test_module as fl\nloader = fl.Numbers(100)\nwith loader.live_view():\n    list(loader)\n"
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert outcome.returncode == 0 and outcome.stdout == "" and "\x1b" not in outcome.stderr and outcome.stderr.count("\n") == 1, outcome


def test_a_report_is_of_the_last_pass(tmp_path):
    loader = fl.Numbers(100)
    path = tmp_path / "report.html"
    with loader.recorder(every=0.001) as record:
        with pytest.raises(RuntimeError, match="no pass has run since the recorder was made"):
            record.report(path)
        next(iter(loader))
        record.report(str(path))
        assert "map `check`" in path.read_text()
        assert len(list(loader)) == 25
        record.report(path)
        whole = path.read_text()
        assert "25" in whole and "</html>" in whole
        with pytest.raises(OSError, match="missing"):
            record.report(tmp_path / "missing" / "report.html")
        loader.close()
        record.report(path)
    with pytest.raises(RuntimeError, match="closed"):
        record.report(path)
    list(loader)  # nothing watches it now
    with pytest.raises(RuntimeError, match="closed"):
        record.report(path)
    with pytest.raises(RuntimeError, match="closed"):
        with record:
            pass
    loader.close()
    with loader.recorder() as late:
        with pytest.raises(RuntimeError, match="no pass has run since"):
            late.report(path)
    list(loader)
    with loader.recorder() as late, pytest.raises(RuntimeError, match="no pass has run since"):
        late.report(path)


@pytest.mark.parametrize("closes", [False, True])
def test_a_report_while_passes_follow_each_other(tmp_path, closes):
    loader = fl.Numbers(40)
    record, ended, errors = loader.recorder(every=0.001), threading.Event(), []

    def report():
        while not ended.is_set():
            try:
                record.report(tmp_path / "report.html")
            except RuntimeError as error:
                errors.append(str(error))

    list(loader)
    thread = threading.Thread(target=report)
    thread.start()
    for _ in range(60):
        list(loader)
    if closes:
        record.close()
    ended.set()
    thread.join()
    assert closes or errors == []
    assert all("closed" in error for error in errors)


def test_a_view_and_a_recorder_go_on_after_a_state_was_loaded(tmp_path):
    loader = fl.Numbers(40)
    with loader.live_view(), loader.recorder() as record:
        next(iter(loader))
        state = loader.state_dict()
        list(loader)
        loader.load_state_dict(state)
        assert len(list(loader)) == 9
        record.report(tmp_path / "report.html")
        loader.close(drain=True)


def test_watchers_begin_in_a_run_and_may_outlive_the_loader(tmp_path):
    loader = fl.Numbers(100, infinite=True)
    loader.next()
    record, view = loader.recorder(), loader.live_view()
    loader.next()
    del loader
    gc.collect()
    record.report(tmp_path / "report.html")
    view.close()
    view.close()
    before = len(os.listdir("/proc/self/task"))
    del record, view
    assert len(os.listdir("/proc/self/task")) == before - 1  # that of the recorder


@pytest.mark.parametrize("every", [0, -1, float("nan"), float("inf"), 1e9, 0.0001])
def test_wrong_intervals(every):
    loader = fl.Numbers(100)
    for make in (loader.live_view, loader.recorder):
        with pytest.raises(ValueError, match="every must be from 0.0"):
            make(every=every)
    with pytest.raises(ValueError, match="last must be from 1.0 to 86400 seconds, not"):
        loader.recorder(last=every)
    with pytest.raises(ValueError, match="every must be at most last"):
        loader.recorder(every=10, last=5)


@pytest.mark.parametrize("ending, code", [("", 0), ("import sys; sys.exit(3)", 3), ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -15)])
def test_a_program_may_end_with_watchers(ending, code):
    program = "import feedline_test_module as fl\nloader = fl.Numbers(100, infinite=True)\nview, record = loader.live_view(), loader.recorder()\n"
    outcome = subprocess.run([sys.executable, "-c", program + "loader.next()\n" + ending], capture_output=True, text=True, timeout=60)
    assert outcome.returncode == code and "terminate" not in outcome.stderr, outcome
