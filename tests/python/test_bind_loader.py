# SPDX-License-Identifier: MIT
# Loaders as Python's users see them.
import copy
import gc
import logging
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import feedline_test_module as fl


def flat(batches):
    return np.concatenate(list(batches)).tolist() if batches else []


def test_a_pass_yields_every_sample_and_the_next_one_another_order():
    loader = fl.Numbers(10, batch_size=4)
    first, second = flat(list(loader)), flat(list(loader))
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second
    assert first + second == flat(list(fl.Numbers(10, batch_size=4, epochs=2)))
    assert flat(list(fl.Numbers(10, first_epoch=1))) == second


def test_the_length_is_that_of_a_pass():
    assert len(fl.Numbers(10, batch_size=4)) == 3
    assert len(fl.Numbers(10, batch_size=4, epochs=2)) == 6
    with pytest.raises(TypeError):
        len(fl.Numbers(10, infinite=True))


def test_fields_arrive_as_arrays():
    batch = next(iter(fl.Examples(3)))
    assert list(batch) == ["label", "pixels", "name", "weight", "where", "half", "brain"]
    assert batch["label"].dtype == np.int32 and batch["label"].tolist() == [0, 1, 2]
    assert batch["pixels"].shape == (3, 3) and batch["pixels"][2].tolist() == [2, 3, 4]
    assert batch["name"] == [b"name 0", b"name 1", b"name 2"]
    assert batch["weight"]["values"].tolist() == [0, 0, 1]
    assert batch["weight"]["mask"].tolist() == [True, False, True]
    assert batch["where"]["width"].tolist() == [0, 1, 2]
    assert batch["half"].dtype == np.float16 and batch["half"].tolist() == [0, 1, 2]
    assert batch["brain"].shape == (3,)
    assert (batch["brain"].bits.astype(np.uint32) << 16).view(np.float32).tolist() == [0, 1, 2]
    assert batch["brain"].__dlpack_device__() == (1, 0)
    assert "dltensor" in repr(batch["brain"].__dlpack__())


def test_other_containers():
    t = next(iter(fl.Examples(1, fields="tuple")))
    assert isinstance(t, tuple) and t[4][0].tolist() == [0]
    n = next(iter(fl.Examples(1, fields="namedtuple")))
    assert n.label.tolist() == [0] and n.where.height.tolist() == [0]
    assert type(n) is type(next(iter(fl.Examples(1, fields="namedtuple"))))
    with pytest.raises(ValueError, match="fields"):
        fl.Examples(1, fields="list")


def test_a_class_arrives_as_the_tuple_of_its_fields():
    loader = fl.Measurements(3)
    items = list(loader)
    assert [count for count, _ in items] == [0, 1, 2]
    del loader
    gc.collect()
    assert [values.tolist() for _, values in items] == [[0, 0], [1, 1], [2, 2]]


def test_padded_columns_have_lengths():
    values, lengths = next(iter(fl.Padded(3, fields="tuple")))[0]
    assert values.tolist() == [[0, -1, -1], [1, 1, -1], [2, 2, 2]] and lengths.tolist() == [1, 2, 3]
    assert lengths.dtype == np.int64


def test_arrays_use_the_batch_and_outlive_the_loader():
    loader = fl.Examples(4)
    batch = next(iter(loader))
    pixels = batch["pixels"]
    assert not pixels.flags.owndata and pixels.flags.writeable and pixels.flags.aligned
    pixels[0, 0] = 7
    assert np.from_dlpack(pixels)[0, 0] == 7
    loader.close()
    del loader, batch
    gc.collect()
    thread = threading.Thread(target=lambda a: a.fill(3), args=(pixels,))
    thread.start()
    thread.join()
    assert pixels.sum() == 36


def test_a_state_continues_behind_the_last_batch():
    whole = flat(list(fl.Numbers(50, epochs=2)))
    for count in (0, 1, 7, 25, 26):
        loader = fl.Numbers(50, epochs=2)
        seen = flat([loader.next() for _ in range(min(count, 26))])
        state = pickle.loads(pickle.dumps(loader.state_dict()))
        assert seen + flat(list(fl.Numbers(50, epochs=2, resume=state))) == whole
        other = fl.Numbers(50, epochs=2)
        other.next()
        other.load_state_dict(state)
        assert seen + flat(list(other)) == whole
    with pytest.raises(TypeError, match="state_dict"):
        fl.Numbers(50, resume=3)
    for wrong in ({}, {"feedline": b"no state", "passes": 0}):
        with pytest.raises(ValueError):
            fl.Numbers(50, resume=wrong)


def test_a_state_of_a_later_pass_continues_with_its_epochs():
    loader = fl.Numbers(50)
    list(loader)
    iter(loader)
    loader.next()
    state = loader.state_dict()
    rest, after = flat(list(loader)), flat(list(loader))
    resumed = fl.Numbers(50, resume=state)
    assert flat(list(resumed)) == rest and flat(list(resumed)) == after


def test_a_failure_is_an_exception_with_attributes():
    with pytest.raises(fl.PipelineError, match="unlucky") as error:
        list(fl.Numbers(10, fails_at=3))
    assert error.value.stage == "map `check`" and error.value.sample == 3 and error.value.epoch == 0
    assert isinstance(error.value.__cause__, RuntimeError) and str(error.value.__cause__) == "unlucky"


def test_failures_can_be_skipped():
    told = []
    loader = fl.Numbers(10, fails_at=3, on_error="skip", on_failure=told.append)
    assert sorted(flat(list(loader))) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert told == loader.failures() and told[0]["message"] == "unlucky" and told[0]["sample"] == 3


def test_an_exception_of_a_callback_arrives_as_itself():
    class Mine(Exception):
        pass

    def refuse(failure):
        raise Mine(failure["sample"])

    with pytest.raises(Mine, match="3"):
        list(fl.Numbers(10, fails_at=3, on_error="skip", on_failure=refuse))


def test_metrics_memory_and_repr():
    loader = fl.Numbers(10)
    list(loader)
    metrics = loader.metrics()
    assert metrics["consumer"]["items"] == 3
    assert [stage["name"] for stage in metrics["stages"]][-2:] == ["map `check`", "batch"]
    assert metrics["recent"]["consumer"]["items"] == 3 and loader.metrics()["recent"]["consumer"]["items"] == 0
    assert [stage["segment"] for stage in metrics["stages"]] == sorted(stage["segment"] for stage in metrics["stages"])
    assert all(segment["active"] >= 1 for segment in metrics["segments"])
    assert "check" in loader.metrics_text()
    assert "check" in loader.memory()
    assert repr(loader) .startswith("<Numbers: finite, rank 0 of 1")


def test_next_may_time_out():
    loader = fl.Numbers(4, seconds=3600)
    begin = time.monotonic()
    with pytest.raises(TimeoutError):
        loader.next(timeout=0.05)
    assert time.monotonic() - begin < 60
    loader.close()


def test_other_threads_go_on_and_may_stop_a_loader():
    loader = fl.Numbers(4, seconds=3600)
    iter(loader)  # begins the pass: a stop of an earlier moment wouldn't concern it
    counted = []

    def count():
        for i in range(100):
            counted.append(i)
            logging.getLogger("test").info("count %d", i)
        loader.stop()

    thread = threading.Thread(target=count)
    thread.start()
    with pytest.raises(StopIteration):
        loader.next()
    thread.join()
    assert len(counted) == 100


def test_two_threads_in_one_loader_are_refused():
    loader = fl.Numbers(4, seconds=3600)
    iter(loader)
    entered = threading.Event()

    def wait():
        entered.set()
        with pytest.raises(StopIteration):
            loader.next()

    thread = threading.Thread(target=wait)
    thread.start()
    entered.wait()
    for _ in range(10_000):
        try:
            loader.next(timeout=0)
        except TimeoutError:
            continue
        except RuntimeError as error:
            assert "another thread" in str(error)
            break
    loader.stop()
    thread.join()


def test_a_loader_cant_be_sent_to_another_process():
    for use in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=r"state_dict\(\).*num_workers=0"):
            use(fl.Numbers(8))


def test_ranks_share_the_data():
    shares = [flat(list(fl.Numbers(8, batch_size=2, rank=r, world_size=2))) for r in (0, 1)]
    assert sorted(shares[0] + shares[1]) == list(range(8))
    with pytest.raises(ValueError, match="world_size"):
        fl.Numbers(8, rank=1)


def test_many_batches_and_loaders():
    loaders = [fl.Numbers(100, infinite=True) for _ in range(8)]
    for _ in range(200):
        for loader in loaders:
            assert len(next(loader)) == 4
    del loaders


def test_a_context_manager_closes():
    with fl.Numbers(100, infinite=True) as loader:
        loader.next()
    assert sorted(flat([b for b, _ in zip(loader, range(25))])) != []


def test_options_of_the_run_may_stand_among_the_parameters():
    signature = fl.Names.__init__.__doc__.splitlines()[0]
    assert ("seed: Optional[int] = 5, as_numbers: bool = False, infinite: bool = True, *, epochs: int = 1, "
            "first_epoch: Optional[int] = None, rank: Optional[int] = None,") in signature
    assert signature.count("seed") == signature.count("infinite") == 1
    assert fl.Names(["a"], 3, True).next().tolist() == [3, 7]
    assert fl.Names(["a"], as_numbers=True, seed=None).next().tolist() == [0, 7]
    assert repr(fl.Names(["a"])).startswith("<Names: infinite")
    assert len(list(fl.Names(["a", "b", "c"], infinite=False))) == 2
    assert "infinite: bool = False" in fl.Numbers.__init__.__doc__


def test_a_parameter_cant_have_the_name_of_an_option():
    with pytest.raises(ValueError, match="`seed`.*python::option::seed or another name"):
        fl.bind_a_name_that_an_option_has(fl)


def test_names_of_files_are_texts_and_paths():
    def names(given):
        return sum(fl.Names(given, infinite=False), [])

    assert names("a-*.tar") == names(b"a-*.tar") == names(pathlib.Path("a-*.tar")) == [b"a-*.tar"]
    assert names(["s3://b/c", pathlib.Path("d"), "\u00e4"]) == [b"s3://b/c", b"d", "\u00e4".encode()]
    assert names(("a", "b")) == [b"a", b"b"]
    for wrong in (7, None, ["a", 7], [["a"]], {"a"}, "a\0b"):
        with pytest.raises(TypeError, match="names: Union"):
            fl.Names(wrong)


def wait_until_ready(loader, count):
    """Waits until so many batches are ready."""
    while True:
        queue = loader.metrics()["queues"][-1]
        if queue["put"] - queue["taken"] >= count:
            return
        time.sleep(0)


def test_a_closed_loader_may_be_drained():
    whole = flat([batch for batch, _ in zip(fl.Numbers(50, infinite=True), range(200))])
    for taken in (0, 3):
        loader = fl.Numbers(50, infinite=True)
        iter(loader)
        seen = [loader.next() for _ in range(taken)]
        wait_until_ready(loader, 2)
        loader.close(drain=True)
        state = loader.state_dict()
        seen.append(loader.next())
        between = loader.state_dict()
        rest = list(loader)
        assert len(rest) >= 1
        assert flat(seen + rest) == whole[:4 * len(seen + rest)]
        for position, behind in ((state, len(seen) - 1), (between, len(seen)), (loader.state_dict(), len(seen + rest))):
            assert fl.Numbers(50, infinite=True, resume=position).next().tolist() == whole[4 * behind:4 * behind + 4]
        with pytest.raises(StopIteration):
            loader.next()
        assert loader.metrics()["consumer"]["items"] == len(seen + rest)
        assert len(next(iter(loader))) == 4  # a further pass


def test_a_drained_loader_delivers_a_failure_in_its_place():
    before = 0
    with pytest.raises(fl.PipelineError):
        for _ in fl.Numbers(40, fails_at=3):
            before += 1
    loader = fl.Numbers(40, fails_at=3)
    iter(loader)
    wait_until_ready(loader, before)
    loader.close(drain=True)
    seen = []
    try:
        for batch in loader:
            seen.append(batch)
    except fl.PipelineError as error:  # if it was ready too
        assert error.sample == 3
    assert len(seen) == before


def test_draining_ends_the_wait_of_another_thread():
    loader = fl.Numbers(4, seconds=3600)
    iter(loader)
    ended = []

    def wait():
        with pytest.raises(StopIteration):
            loader.next()
        ended.append(True)

    thread = threading.Thread(target=wait)
    thread.start()
    loader.close(drain=True)
    thread.join(100)
    assert ended == [True]


def test_close_and_stop_drop_what_drain_has_kept():
    for end in ("close", "stop"):
        loader = fl.Numbers(50, infinite=True)
        iter(loader)
        wait_until_ready(loader, 2)
        loader.close(drain=True)
        getattr(loader, end)()
        with pytest.raises(StopIteration):
            loader.next()
    loader = fl.Numbers(50)
    loader.close(drain=True)  # before it began
    assert len(list(loader)) == 13


def test_a_closed_loader_still_has_its_metrics_failures_and_position():
    loader = fl.Numbers(10, fails_at=3, on_error="skip", infinite=True)
    seen = flat([loader.next() for _ in range(5)])
    failures, state = loader.failures(), loader.state_dict()
    loader.close()
    assert loader.metrics()["consumer"]["items"] == 5
    assert loader.failures() == failures != []
    assert loader.state_dict() == state
    resumed = fl.Numbers(10, fails_at=3, on_error="skip", infinite=True, resume=state)
    assert seen + flat([resumed.next() for _ in range(5)]) == flat(
        [batch for batch, _ in zip(fl.Numbers(10, fails_at=3, on_error="skip", infinite=True), range(10))])


def run_python(code, *arguments):
    imports = "import os, pickle, signal, sys, threading, time\nimport feedline_test_module as fl\n"
    return subprocess.run(
        [sys.executable, "-c", imports + code, *arguments],
        env=dict(os.environ, PYTHONPATH=os.path.dirname(fl.__file__)), capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("wait", ["loader.next()", "list(loader)", "loader.next(timeout=100)"])
def test_ctrl_c_ends_a_wait(wait):
    outcome = run_python(f"""
loader = fl.Numbers(4, seconds=3600)
def interrupt():
    time.sleep(0.3)
    global sent
    sent = time.monotonic()
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    {wait}
except KeyboardInterrupt:
    print("interrupted after", time.monotonic() - sent)
""")
    assert outcome.stdout.startswith("interrupted after"), outcome.stderr
    assert float(outcome.stdout.split()[-1]) < 5  # usually less than a millisecond; the machine may be busy
    assert outcome.returncode == 0


def test_a_signal_handler_may_drain():
    outcome = run_python("""
loader = fl.Numbers(4, seconds=3600)
signal.signal(signal.SIGTERM, lambda *_: loader.close(drain=True))
threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGTERM)).start()
print("batches", len(list(loader)))
""")
    assert outcome.stdout == "batches 0\n", outcome.stderr


def test_a_child_of_fork_is_refused():
    outcome = run_python("""
loader = fl.Numbers(100, infinite=True)
loader.next()
pid = os.fork()
if pid == 0:
    try:
        loader.next()
    except RuntimeError as error:
        os._exit(42 if "fork" in str(error) else 1)
    os._exit(2)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 42
pid = os.fork()
if pid == 0:
    del loader
    sys.exit(43)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 43
loader.next()
""")
    assert outcome.returncode == 0, outcome.stderr


@pytest.mark.parametrize("code", [
    "loader = fl.Numbers(100, infinite=True)\nloader.next()",
    "import builtins\nbuiltins.kept = fl.Numbers(4, seconds=3600)\ntry: kept.next(timeout=0.01)\nexcept TimeoutError: pass",
    "loader = fl.Examples(4)\nimport builtins\nbuiltins.kept = next(iter(loader))",
    "loader = fl.Numbers(4, seconds=3600)\nthreading.Thread(target=loader.next, daemon=True).start()\ntime.sleep(0.2)",
])
def test_the_interpreter_ends_with_a_running_loader(code):
    outcome = run_python(code)
    assert outcome.returncode == 0, outcome.stderr


def test_a_killed_process_is_resumed(tmp_path):
    code = """
loader = fl.Numbers(50, epochs=2, resume=pickle.load(open(sys.argv[1], "rb")) if os.path.exists(sys.argv[1]) else None)
for batch in loader:
    print(*batch, flush=True)
    pickle.dump(loader.state_dict(), open(sys.argv[1] + ".new", "wb"))
    os.replace(sys.argv[1] + ".new", sys.argv[1])
    if len(sys.argv) > 2: os.kill(os.getpid(), signal.SIGKILL)
"""
    seen = []
    for kills in (True, True, False):
        outcome = run_python(code, str(tmp_path / "state"), *["kill"] * kills)
        assert outcome.returncode == (-signal.SIGKILL if kills else 0), outcome.stderr
        seen += [int(n) for n in outcome.stdout.split()]
    assert seen == flat(list(fl.Numbers(50, epochs=2)))
