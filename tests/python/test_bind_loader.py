# SPDX-License-Identifier: MIT
# Loaders as Python's users see them.
import ast
import contextlib
import copy
import gc
import logging
import os
import pathlib
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest

import feedline_test_module as fl


def flat(batches):
    return np.concatenate(list(batches)).tolist() if batches else []


@pytest.fixture(autouse=True)
def gate_is_open():
    yield
    fl.set_gate(fl.Gate.open)


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
    for count in (0, 1, 7, 8, 9):
        for world_size in (1, 2, 3):
            for epochs in (1, 2):
                for rank in range(world_size):
                    loader = fl.Numbers(count, batch_size=2, rank=rank, world_size=world_size, epochs=epochs)
                    assert len(loader) == len(list(loader)) == len(list(loader))
    for loader in (fl.Numbers(10, infinite=True), fl.Evens(10)):
        with pytest.raises(TypeError, match="no length"):
            len(loader)
    with pytest.raises(ValueError, match="epochs"):
        len(fl.Numbers(10, epochs=0))


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
    assert "dltensor" in repr(batch["brain"].__dlpack__(stream=None, max_version=(1, 0), dl_device=(1, 0), copy=False))
    with pytest.raises(BufferError):
        batch["brain"].__dlpack__(copy=True)


def test_other_containers():
    t = next(iter(fl.Examples(1, fields="tuple")))
    assert type(t) is tuple and t[4][0].tolist() == [0]
    n = next(iter(fl.Examples(1, fields="namedtuple")))
    assert n.label.tolist() == [0] and n.where.height.tolist() == [0]
    assert type(n) is type(next(iter(fl.Examples(1, fields="namedtuple"))))
    assert next(fl.OddNames(1)) == {"lambda": 0, "from": 1}
    assert next(fl.OddNames(1, fields="namedtuple")) == (0, 1)  # Python doesn't allow these names
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
    columns = next(iter(fl.Padded(2, mask=True)))["tokens"]
    assert list(columns) == ["values", "lengths", "mask"] and columns["mask"].dtype == np.bool_
    assert columns["mask"].tolist() == [[True, False], [True, True]]
    values, lengths, mask = next(iter(fl.Padded(1, mask=True, fields="tuple")))[0]
    assert mask.tolist() == [[True]]


def test_columns_of_lists_have_values_and_offsets():
    photos = next(iter(fl.Photos(3)))
    gc.collect()  # the arrays keep the batch alive
    boxes = photos["boxes"]
    assert boxes["offsets"].tolist() == [0, 0, 1, 3] and boxes["offsets"].dtype == np.int64
    assert boxes["values"]["left"].tolist() == [0.5, 0.5, 1.5]
    assert boxes["values"]["size"].tolist() == [[1, 7], [2, 7], [2, 7]] and boxes["values"]["size"].dtype == np.int16
    assert boxes["values"]["name"] == [b"0", b"0", b"1"]
    scores = photos["scores"]
    assert np.split(scores["values"], scores["offsets"][1:-1])[2].tolist() == [2, 2]
    (left, size, names), offsets = next(iter(fl.Photos(2, fields="tuple")))[0]
    assert left.tolist() == [0.5] and size.shape == (1, 2) and names == [b"0"] and offsets.tolist() == [0, 0, 1]
    assert next(iter(fl.Photos(1)))["boxes"]["values"]["size"].shape == (0, 2)


def test_items_need_no_batch():
    items = [item for batch in fl.Oddities(2) for item in batch]
    for n, item in enumerate(items):
        assert item["point"].shape == () and item["point"].dtype == np.float32 and item["point"] == n
        assert item["none"].shape == (0,) and item["none"].dtype == np.int32
        assert item["bits"] == [True, False]
        assert item["bytes"].tolist() == [255] and item["colors"].tolist() == [250] and item["one"] == 3
        assert item["letter"] == -n
        assert item["words"] == [b"a", b"b"] and item["brain"] == 1.5
    assert [item["either"] for item in items] == [0, b"odd"]
    assert [item["nested"][0]["width"] for item in items] == [0, 1]
    assert [item["nested"][1] for item in items] == [None, b"odd"]
    nested = next(iter(fl.Oddities(1, fields="namedtuple")))[0].nested
    assert type(nested) is tuple and nested[0]._fields == ("width", "height")
    assert next(iter(fl.Oddities(1, fields="tuple")))[0][8] == ((0, 0.0), None)


def test_a_function_may_return_an_any_pipeline():
    assert flat(list(fl.Evens(10))) == [0, 2, 4, 6, 8]
    assert flat(list(fl.Odds(10))) == [1, 3, 5, 7, 9]  # a class of its own, though the function's type is the same


def test_a_function_may_take_python_objects():
    assert flat(list(fl.Listed([1, 2.5]))) == [1, 2.5]
    with pytest.raises(RuntimeError):
        fl.Listed(["a"])


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
    good = loader.state_dict()
    for wrong in ({}, {"feedline": b"no state", "passes": 0}, {"feedline": 3, "passes": 0}, dict(good, passes=-1),
                  dict(good, passes=None), dict(good, feedline="text"), {"passes": 1}, {"feedline": good["feedline"]}):
        with pytest.raises(ValueError):
            fl.Numbers(50, resume=wrong)
        fresh = fl.Numbers(50, epochs=2)
        with pytest.raises(ValueError):
            fresh.load_state_dict(wrong)
        assert flat(list(fresh)) == whole  # nothing of it was taken over
    with pytest.raises(ValueError, match="first_epoch"):
        list(fl.Numbers(50, epochs=2, resume=dict(good, passes=2**32 - 1)))


def test_a_start_that_failed_is_made_up_for_by_the_next_one():
    loader = fl.Gated(20)
    seen = loader.next().tolist()
    state = loader.state_dict()
    for begin in (iter, fl.Gated.next, fl.Gated.state_dict):
        resumed = fl.Gated(20, resume=state)
        fl.set_gate(fl.Gate.broken)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="gate is broken"):
                begin(resumed)
        assert "not begun" in repr(resumed)
        fl.set_gate(fl.Gate.open)
        assert seen + flat(list(resumed)) == list(range(20))
        assert flat(list(resumed)) == list(range(20))


def test_a_state_of_a_later_pass_continues_with_its_epochs():
    loader = fl.Numbers(50)
    list(loader)
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    rest, after = flat(list(batches)), flat(list(loader))
    resumed = fl.Numbers(50, resume=state)
    assert flat(list(resumed)) == rest and flat(list(resumed)) == after


def test_a_failure_is_an_exception_with_attributes():
    with pytest.raises(fl.PipelineError, match="unlucky") as error:
        list(fl.Numbers(10, fails_at=3))
    assert error.value.stage == "map `check`" and error.value.sample == 3 and error.value.epoch == 0
    assert isinstance(error.value.__cause__, RuntimeError) and str(error.value.__cause__) == "unlucky"


def test_texts_may_have_any_bytes():
    loader = fl.Numbers(2, fails_at=1, message=b"caf\xe9", on_error="skip")
    list(loader)
    assert loader.failures()[0]["message"] == os.fsdecode(b"caf\xe9")
    with pytest.raises(fl.PipelineError) as error:
        list(fl.Numbers(2, fails_at=1, message=b"caf\xe9"))
    assert error.value.message == os.fsdecode(b"caf\xe9") and error.value.message in str(error.value)


def test_the_texts_of_all_exceptions_may_have_any_bytes():
    for kind, error in (("invalid_argument", ValueError), ("length_error", ValueError), ("out_of_range", IndexError),
                        ("overflow_error", OverflowError), ("runtime_error", RuntimeError), ("system_error", OSError)):
        with pytest.raises(error) as raised:
            fl.refuse(kind, b"caf\xe9")
        assert os.fsdecode(b"caf\xe9") in str(raised.value) and type(raised.value) is error
        with pytest.raises(error, match="caf\u00e9"):
            fl.refuse(kind, "caf\u00e9")


def test_a_failure_can_be_sent_to_another_process():
    with pytest.raises(fl.PipelineError) as error:
        list(fl.Numbers(10, fails_at=3))
    copy = pickle.loads(pickle.dumps(error.value))
    assert type(copy) is fl.PipelineError and str(copy) == str(error.value) and copy.sample == 3


def test_failures_can_be_skipped():
    told = []
    loader = fl.Numbers(10, fails_at=3, on_error="skip", on_failure=told.append)
    assert sorted(flat(list(loader))) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert told == loader.failures() and told[0]["message"] == "unlucky" and told[0]["sample"] == 3
    for infinite in (False, True):
        with pytest.raises(fl.PipelineError, match="limit"):
            for _ in zip(range(100), fl.Numbers(10, fails_at=3, on_error="skip", failure_limit=0, infinite=infinite)):
                pass


def test_an_exception_of_a_callback_arrives_as_itself():
    class Mine(Exception):
        pass

    def refuse(failure):
        raise Mine(failure["sample"])

    with pytest.raises(Mine, match="3"):
        list(fl.Numbers(10, fails_at=3, on_error="skip", on_failure=refuse))


def test_callbacks_must_be_functions():
    for option in ("on_failure", "on_notice"):
        with pytest.raises(TypeError):
            fl.Numbers(10, **{option: 3})


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
    assert metrics["failures"] == [] and metrics["segments"][0]["throttled_fraction"] == 0
    assert loader.waiting_for().startswith("nothing: ")
    assert repr(loader) .startswith("<Numbers: finite, rank 0 of 1")


def test_memory_is_known_before_a_start_and_after_the_end():
    loader = fl.Numbers(10)
    text = loader.memory()
    assert "check" in text and "?" not in text and "total" in text
    list(loader)
    assert loader.memory() == text
    loader.close()
    assert loader.memory() == text
    assert fl.Numbers(10, resume=loader.state_dict()).memory() == text
    small = fl.Numbers(10, memory_budget=200_000)
    assert len(list(small)) == 3
    with pytest.raises(ValueError, match="memory_budget of 1.0 kB|memory_budget of"):
        fl.Numbers(10, memory_budget=1000).memory()


def test_next_may_time_out():
    loader = fl.Numbers(4, waits=True)
    begin = time.monotonic()
    with pytest.raises(TimeoutError):
        loader.next(timeout=0.05)
    assert time.monotonic() - begin < 60
    for timeout in (0, -1):
        with pytest.raises(TimeoutError):
            loader.next(timeout)
    with pytest.raises(ValueError, match="timeout"):
        loader.next(float("nan"))
    loader.close()


def test_other_threads_go_on_and_may_stop_a_loader():
    loader = fl.Numbers(4, waits=True)
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


def in_thread(function, *arguments):
    thread = threading.Thread(target=function, args=arguments)
    thread.start()
    return thread


def expect_end(loader):
    with pytest.raises(StopIteration):
        loader.next()


def test_two_threads_in_one_loader_are_refused():
    loader = fl.Numbers(4, waits=True)
    iter(loader)
    thread = in_thread(expect_end, loader)
    with pytest.raises(RuntimeError, match="another thread"):
        while True:  # until the other thread is inside; meanwhile this one, which keeps Python's lock, isn't
            loader.failures()
    for call in (lambda: loader.next(timeout=0), lambda: iter(loader), loader.state_dict, lambda: loader.load_state_dict({}),
                 loader.failures):
        with pytest.raises(RuntimeError, match="another thread"):
            call()
    assert "in pass 1" in repr(loader) and loader.metrics() and loader.memory()
    loader.stop()
    thread.join()


def test_a_loader_cant_be_sent_to_another_process():
    for use in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=r"state_dict\(\).*num_workers=0"):
            use(fl.Numbers(8))


def test_threads_that_compete_for_batches_lose_none():
    loader = fl.Numbers(400, batch_size=1)
    shares = [[] for _ in range(4)]

    def take(share):
        while True:
            try:
                share.append(int(loader.next()[0]))
            except RuntimeError:
                continue
            except StopIteration:
                return

    iter(loader)
    for thread in [in_thread(take, share) for share in shares]:
        thread.join()
    assert sorted(sum(shares, [])) == list(range(400))


def test_a_loader_may_lose_its_name_while_a_thread_waits():
    loader = fl.Numbers(4, waits=True)
    iter(loader)
    thread = in_thread(expect_end, loader)
    fl.await_waiting()
    last = weakref.ref(loader)
    del loader
    gc.collect()
    last().stop()
    thread.join()
    del thread
    gc.collect()
    assert last() is None


def test_a_callback_may_refer_to_its_loader():
    class User:
        def __init__(self):
            self.loader = fl.Numbers(10, infinite=True, on_failure=self.notice, on_notice=self.notice)
            self.loader.next()

        def notice(self, what):
            pass

    user = User()
    last, loader = weakref.ref(user), weakref.ref(user.loader)
    gc.collect()
    assert last() is user and len(user.loader.next()) == 4
    del user
    gc.collect()
    assert last() is None and loader() is None


def drop_in_thread(values):
    in_thread(values.clear).join()


def test_arrays_keep_their_batch_alive():
    gc.collect()
    before = fl.live_blocks()
    loader = fl.Examples(4)
    batch = loader.next()
    kept = [batch["pixels"][1:], memoryview(batch["brain"].bits), batch["where"]["width"].view(np.uint8)]
    with pytest.raises(StopIteration):
        loader.next()
    del batch
    loader.close()
    del loader
    gc.collect()
    assert fl.live_blocks() > before
    assert kept[0].tolist() == [[1, 2, 3], [2, 3, 4], [3, 4, 5]]
    drop_in_thread(kept)
    assert fl.live_blocks() == before
    capsule = fl.Examples(4).next()["brain"].__dlpack__()
    gc.collect()
    assert fl.live_blocks() > before
    del capsule
    assert fl.live_blocks() == before


@pytest.mark.skipif(hasattr(fl, "use_after_free"), reason="AddressSanitizer must see each free, so nothing is kept")
def test_memory_returns_to_the_run():
    gc.collect()
    before = fl.live_blocks()
    loader = fl.Numbers(100, infinite=True)
    held = [loader.next() for _ in range(20)]  # more than the run needs later
    drop_in_thread(held)
    taken = fl.taken_blocks()
    for _ in range(100):
        held = [loader.next() for _ in range(3)]
        drop_in_thread(held)
    assert fl.taken_blocks() < taken + 50  # 300 batches needed few more than the most that were alive at once
    loader.close()
    assert fl.live_blocks() == before


@pytest.mark.parametrize("end", [
    lambda loader: loader.close(), lambda loader: loader.stop(), lambda loader: None, lambda loader: list(loader),
    lambda loader: loader.load_state_dict(loader.state_dict()), lambda loader: loader.__exit__(None, None, None)])
def test_no_ending_leaves_memory_behind(end):
    gc.collect()
    before = fl.live_blocks()
    loader = fl.Numbers(100)
    batch, other = loader.next(), loader.next()
    end(loader)
    del loader, other
    gc.collect()
    assert fl.live_blocks() > before
    del batch
    assert fl.live_blocks() == before


def test_failures_leave_no_memory_behind():
    gc.collect()
    before = fl.live_blocks()

    def refuse(failure):
        raise LookupError(failure["message"])

    for options, error in (({}, fl.PipelineError), ({"on_error": "skip", "failure_limit": 0}, fl.PipelineError),
                           ({"on_error": "skip", "on_failure": refuse}, LookupError)):
        loader = fl.Numbers(100, fails_at=90, **options)
        with pytest.raises(error, match="unlucky"):
            for held in loader:
                pass
        del loader, held
        gc.collect()
        assert fl.live_blocks() == before


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
    assert ("seed: Optional[int] = 5, as_numbers: bool = False, infinite: bool = True, *, epochs: Optional[int] = None, "
            "first_epoch: Optional[int] = None, rank: Optional[int] = None,") in signature
    assert signature.count("seed") == signature.count("infinite") == 1
    assert fl.Names(["a"], 3, True).next().tolist() == [3, 7]
    assert fl.Names(["a"], as_numbers=True, seed=None).next().tolist() == [0, 7]
    assert repr(fl.Names(["a"])).startswith("<Names: infinite")
    assert len(list(fl.Names(["a", "b", "c"], infinite=False))) == 2
    assert "infinite: bool = False" in fl.Numbers.__init__.__doc__


def test_a_parameter_cant_have_the_name_of_an_option():
    with pytest.raises(ValueError, match="`seed`.*python::option::seed or another name"):
        fl.bind_a_name_that_an_option_has()


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
    loader = fl.Numbers(4, waits=True)
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
    gc.collect()
    before = fl.live_blocks()
    for end in ("close", "stop"):
        loader = fl.Numbers(50, infinite=True)
        iter(loader)
        wait_until_ready(loader, 2)
        loader.close(drain=True)
        getattr(loader, end)()
        assert end == "stop" or fl.live_blocks() == before
        with pytest.raises(StopIteration):
            loader.next()
    loader = fl.Numbers(50)
    loader.close(drain=True)  # before it began
    assert len(list(loader)) == 13


def test_a_loaded_state_replaces_what_drain_has_kept():
    loader = fl.Numbers(50, infinite=True)
    state = loader.state_dict()
    first = loader.next().tolist()
    wait_until_ready(loader, 2)
    loader.close(drain=True)
    loader.load_state_dict(state)
    assert loader.next().tolist() == first


def test_a_loaded_state_replaces_a_drain_that_has_not_begun():
    drains = iter([True])
    options = dict(fails_at=3, on_error="skip", infinite=True)
    state = fl.Numbers(10, **options).state_dict()
    loader = fl.Numbers(10, on_failure=lambda _: next(drains, False) and loader.close(drain=True), **options)
    with contextlib.suppress(StopIteration):  # the drain finds no item that is ready
        while not loader.failures():
            loader.next()
    assert loader.failures()
    loader.load_state_dict(state)
    assert len([loader.next() for _ in range(20)]) == 20


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


def test_a_loader_closes_when_its_data_has_gone():
    loader = fl.Gated(20)
    assert list(loader.next()) == [0, 1, 2, 3]
    fl.set_gate(fl.Gate.broken)
    loader.close()
    fl.set_gate(fl.Gate.open)
    with pytest.raises(RuntimeError, match="its data had gone"):
        loader.state_dict()
    assert loader.metrics()["consumer"]["items"] == 1
    assert list(next(iter(loader))) == [0, 1, 2, 3]  # a new pass


def run_python(code, *arguments, before=""):
    imports = before + "import os, pickle, signal, sys, threading, time\nimport feedline_test_module as fl\n"
    return subprocess.run(
        [sys.executable, "-c", imports + code, *arguments],
        env=dict(os.environ, PYTHONPATH=os.path.dirname(fl.__file__)), capture_output=True, text=True, timeout=120)


# Sends Ctrl-C once something waits, and opens the gate when it has been acted on. Without `awaits` the caller has seen that
# something waits, and it is acted on after the wait.
INTERRUPT = """
acted = threading.Event()
def handler(*_):
    acted.set()
    raise KeyboardInterrupt
signal.signal(signal.SIGINT, handler)
def interrupt(awaits):
    if awaits: fl.await_waiting()
    os.kill(os.getpid(), signal.SIGINT)
    if awaits: acted.wait(60)
    fl.set_gate(fl.Gate.open)
def expect_interrupt(wait, awaits=True):
    try:
        threading.Thread(target=interrupt, args=(awaits,)).start()
        wait()
    except KeyboardInterrupt: print("interrupted")
"""


@pytest.mark.parametrize("wait", [
    "loader.next", "lambda: loader.next(timeout=1e9)", "lambda: list(loader)", "lambda: [0 for _ in loader]",
    "lambda: next(iter(loader))"])
def test_ctrl_c_ends_a_wait(wait):
    outcome = run_python(INTERRUPT + f"""
loader = fl.Numbers(4, waits=True)
expect_interrupt({wait})
try: loader.next(timeout=0.01)
except TimeoutError: print("goes on")
""")
    assert outcome.returncode == 0 and outcome.stdout.split("\n")[:2] == ["interrupted", "goes on"], outcome.stderr


@pytest.mark.parametrize("start", ["loader.next", "lambda: iter(loader)", "loader.state_dict"])
def test_ctrl_c_ends_a_start_that_reads_samples_again(start):
    outcome = run_python(INTERRUPT + f"""
state = fl.Shuffled(100)
whole = [n for batch in fl.Shuffled(100) for n in batch]
first = state.next()
state = state.state_dict()
loader = fl.Shuffled(100, waits=True, resume=state)
expect_interrupt({start})
print(loader)
""")
    assert outcome.returncode == 0 and "interrupted\n" in outcome.stdout, outcome.stderr
    assert "not begun" in outcome.stdout


@pytest.mark.parametrize("start", ["loader.next", "lambda: iter(loader)", "loader.state_dict", "lambda: len(loader)"])
def test_ctrl_c_waits_for_a_source_that_cannot_be_stopped_and_undoes_the_start(start):
    outcome = run_python(INTERRUPT + f"""
earlier = fl.Gated(20)
seen = list(earlier.next())
loader = fl.Gated(20, resume=earlier.state_dict())
fl.set_gate(fl.Gate.shut)
expect_interrupt({start})
print(loader)
assert seen + [n for batch in loader for n in batch] == list(range(20))
""")
    assert outcome.returncode == 0 and "interrupted\n" in outcome.stdout, outcome.stderr
    assert "not begun" in outcome.stdout


def test_ctrl_c_during_close_comes_when_the_item_in_hand_is_done():
    outcome = run_python(INTERRUPT + """
fl.set_gate(fl.Gate.shut)
loader = fl.Numbers(4)
iter(loader)
fl.await_waiting() # else the run may be stopped before its source comes to the gate, and nothing waits
expect_interrupt(loader.close, awaits=False)
""")
    assert outcome.returncode == 0 and outcome.stdout == "interrupted\n", outcome.stderr


def test_ctrl_c_in_a_callback_arrives():
    outcome = run_python("""
def refuse(failure): signal.raise_signal(signal.SIGINT)
loader = fl.Numbers(10, fails_at=3, on_error="skip", on_failure=refuse)
seen = []
try:
    batches = iter(loader)
    for batch in batches: seen += list(batch)
except KeyboardInterrupt: print("interrupted")
for batch in batches: pass
""")
    assert outcome.returncode == 0 and "interrupted\n" in outcome.stdout, outcome.stderr


# In the child of a process in which one loader works and a thread waits in another one. The address sanitizer doesn't always
# take the locks of its allocator before fork(): beside a thread that allocates, the child may wait for ever. Under it the child
# is made while all other threads sleep.
IN_CHILD = """
def others_sleep():
    states = []
    for thread in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{thread}/stat") as stat:
            states.append(stat.read().rsplit(")", 1)[1].split()[0])
    return sorted(states) == ["R"] + ["S"] * (len(states) - 1)
loader = fl.Numbers(100, infinite=True)
loader.next()
waiting = fl.Numbers(4, waits=True)
iter(waiting)
threading.Thread(target=waiting.next, daemon=True).start()
fl.await_waiting()
while "asan" in os.environ.get("LD_PRELOAD", "") and not all(others_sleep() for _ in range(5)): pass
pid = os.fork()
if pid == 0: CODE
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 43
assert loader.metrics() and len(loader.next()) == 4
"""


def test_a_signal_handler_may_drain():
    outcome = run_python("""
loader = fl.Numbers(4, waits=True)
signal.signal(signal.SIGTERM, lambda *_: loader.close(drain=True))
threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGTERM)).start()
print("batches", len(list(loader)))
""")
    assert outcome.stdout == "batches 0\n", outcome.stderr


def test_a_child_of_fork_is_refused():
    outcome = run_python("""
def accepted():
    for l in (loader, waiting):
        for call in (l.next, lambda: l.next(timeout=0), l.__next__, l.__iter__, l.__len__, l.state_dict, l.metrics, l.metrics_text, l.waiting_for,
                     lambda: l.load_state_dict({}), l.failures, l.memory, l.stop, l.close, l.__exit__):
            try: call()
            except RuntimeError as error:
                if "child of fork" in str(error): continue
            yield call
""" + IN_CHILD.replace("CODE", "os._exit(42 if list(accepted()) else 43)"))
    assert outcome.returncode == 0, outcome.stderr


def test_a_child_of_fork_may_show_and_drop_a_loader_and_make_its_own():
    outcome = run_python(IN_CHILD.replace("CODE", """
    assert repr(loader).startswith("<Numbers: infinite") and "in pass 1" in repr(waiting)
    del loader, waiting
    assert sorted(n for batch in fl.Numbers(10) for n in batch) == list(range(10))
    sys.exit(43)
"""))
    assert outcome.returncode == 0, outcome.stderr


@pytest.mark.parametrize("code", [
    "loader = fl.Numbers(100, infinite=True)\nloader.next()",
    "import builtins\nbuiltins.kept = fl.Numbers(4, waits=True)\ntry: kept.next(timeout=0.01)\nexcept TimeoutError: pass",
    "loader = fl.Examples(4)\nimport builtins\nbuiltins.kept = next(iter(loader))",
    "loader = fl.Numbers(4, waits=True)\nthreading.Thread(target=loader.next, daemon=True).start()\nfl.await_waiting()",
    "box = [fl.Numbers(4, waits=True)]\niter(box[0])\nthreading.Thread(target=box.clear, daemon=True).start()",
    "def notice(failure): pass\nloader = fl.Numbers(4, fails_at=1, on_error='skip', on_failure=notice)\nlist(loader)",
])
def test_the_interpreter_ends_with_a_running_loader(code):
    outcome = run_python(code)
    assert outcome.returncode == 0, outcome.stderr


def test_functions_that_run_after_the_end_of_all_loaders_see_what_is_left():
    outcome = run_python("""
loader = fl.Numbers(100, infinite=True)
loader.next()
def suspended():
    with loader: yield
kept = suspended()
next(kept)
def late():
    print(loader.metrics()["consumer"]["items"], loader.failures())
    for call in loader.state_dict, fl.Numbers(4).next, lambda: list(loader):
        try: call()
        except RuntimeError as error: print(error)
    loader.close()
""", before="import atexit\natexit.register(lambda: late())\n")
    assert outcome.returncode == 0 and outcome.stderr == "", outcome.stderr
    lines = outcome.stdout.splitlines()
    assert lines[0] == "1 []" and "can't be resumed" in lines[1]
    assert lines[2] == lines[3] == "the interpreter is ending: no loader can start"


# That the main interpreter has imported the module: otherwise pybind11 2.10 waits for ever in its own part of the import.
def test_a_subinterpreter_is_refused():
    interpreters = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    outcome = subprocess.run([sys.executable, "-c", f"""
import sys, feedline_test_module, {interpreters} as interpreters
code = "import sys; sys.path[:] = %r; import feedline_test_module as m; m.Numbers(3)" % sys.path
try: print(interpreters.run_string(interpreters.create(), code))
except Exception as error: print(error)
"""], env=dict(os.environ, PYTHONPATH=os.path.dirname(fl.__file__)), capture_output=True, text=True, timeout=120)
    assert outcome.returncode == 0 and "subinterpreters" in outcome.stdout, outcome


def test_the_launcher_sets_the_rank(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    loader = fl.Numbers(10)
    assert "rank 1 of 2, from torchrun's RANK and WORLD_SIZE" in repr(loader)
    assert sorted(flat(list(loader)) + flat(list(fl.Numbers(10, rank=0, world_size=2)))) == list(range(10))
    assert sorted(flat(list(fl.Numbers(10, rank=0, world_size=1)))) == list(range(10))
    with pytest.raises(ValueError, match="rank"):
        fl.Numbers(10, rank=5, world_size=2)
    monkeypatch.setenv("RANK", "two")
    with pytest.raises(ValueError, match="RANK"):
        fl.Numbers(10)


def test_what_cannot_be_divided_is_dropped_repeated_or_kept():
    def lengths(**options):
        return [len(flat(list(fl.Numbers(7, rank=rank, world_size=2, **options)))) for rank in (0, 1)]
    assert lengths() == lengths(remainder="drop") == [3, 3]
    assert lengths(remainder="wrap") == [4, 4]
    assert lengths(remainder="keep") == [4, 3]
    with pytest.raises(ValueError, match='remainder: "all" is none of "drop", "wrap" and "keep"'):
        fl.Numbers(7, remainder="all")


def passes(count, **options):
    """The first passes of fl.Numbers(12), without an interruption."""
    loader = fl.Numbers(12, **options)
    return [flat(list(loader)) for _ in range(count)]


def test_each_for_begins_a_pass_also_after_a_break():
    whole = passes(5)
    loader = fl.Numbers(12)
    assert next(iter(loader)).tolist() == whole[0][:4]
    for count, batch in enumerate(loader):
        assert batch.tolist() == whole[1][4 * count:4 * count + 4]
        if count == 1:
            break
    assert flat(list(loader)) == whole[2]
    next(iter(loader))
    loader.close()
    assert flat(list(loader)) == whole[4]


def test_the_iterator_of_a_pass_goes_on_in_it():
    whole = passes(2)
    loader = fl.Numbers(12)
    batches = iter(loader)
    assert iter(batches) is batches
    first = next(batches).tolist()
    assert first + flat(list(batches)) == whole[0]
    assert list(batches) == []
    batches = iter(loader)
    assert next(batches).tolist() + loader.next().tolist() + next(batches).tolist() == whole[1]
    with pytest.raises(StopIteration):
        loader.next()


def test_a_pass_of_which_nothing_was_taken_is_the_next_one():
    whole = passes(2)
    loader = fl.Numbers(12)
    state = loader.state_dict()
    iter(loader)
    loader.metrics()
    assert flat(list(loader)) == whole[0]
    assert flat(list(loader)) == whole[1]
    loader.load_state_dict(state)
    loader.state_dict()
    iter(loader)
    assert flat(list(loader)) == whole[0]


def test_the_iterator_of_a_pass_that_was_broken_off_is_refused():
    loader = fl.Numbers(12)
    ended = iter(loader)
    assert len(list(ended)) == 3
    for begin in (iter, list, lambda l: l.load_state_dict(l.state_dict())):
        early = iter(loader)
        next(early)
        begin(loader)
        with pytest.raises(RuntimeError, match="begun another one"):
            next(early)
    with pytest.raises(RuntimeError, match="begun another one"):
        list(zip(loader, loader))
    assert list(ended) == []  # it had come to its end


def test_an_infinite_loader_goes_on():
    whole = flat([batch for batch, _ in zip(fl.Numbers(12, infinite=True), range(9))])
    loader = fl.Numbers(12, infinite=True)
    batches = iter(loader)
    seen = [next(batches), next(iter(loader)), loader.next()]
    for batch in loader:
        seen.append(batch)
        break
    state = loader.state_dict()
    seen += [next(batches) for _ in range(5)]
    assert flat(seen) == whole
    loader.load_state_dict(state)
    assert flat([next(batches) for _ in range(5)]) == whole[16:]


def test_a_pass_that_is_broken_off_leaves_no_memory_behind():
    gc.collect()
    before = fl.live_blocks()
    loader = fl.Numbers(100)
    for _ in range(5):
        next(iter(loader))
    loader.close()
    gc.collect()
    assert fl.live_blocks() == before


def test_an_iterator_may_be_kept_by_what_its_loader_calls():
    class User:
        def __init__(self):
            self.batches = iter(fl.Numbers(10, on_failure=self.notice))
            next(self.batches)

        def notice(self, what):
            pass

    user = User()
    last = weakref.ref(user)
    gc.collect()
    assert len(next(user.batches)) == 4  # it keeps its loader
    del user
    gc.collect()
    assert last() is None


@pytest.mark.parametrize("options", [dict(), dict(epochs=2), dict(seed=5, first_epoch=3)])
@pytest.mark.parametrize("before", [0, 1])
def test_a_state_of_the_end_of_a_pass_begins_the_next_one(options, before):
    whole = passes(5, **options)
    loader = fl.Numbers(12, **options)
    for _ in range(before + 1):
        list(loader)
    states = [pickle.loads(pickle.dumps(loader.state_dict()))]
    loader.close()
    states.append(loader.state_dict())
    for state in states:
        resumed = fl.Numbers(12, resume=state, **options)
        assert [flat(list(resumed)) for _ in range(2)] == whole[before + 1:before + 3]
        for use in (iter, fl.Numbers.state_dict, lambda l: None):
            other = fl.Numbers(12, **options)
            next(iter(other))
            other.load_state_dict(state)
            use(other)
            states_of_other = other.state_dict()  # between two passes
            assert [flat(list(other)) for _ in range(2)] == whole[before + 1:before + 3]
            other.load_state_dict(states_of_other)
            assert other.next().tolist() == whole[before + 1][:4]
            assert flat(list(other)) == whole[before + 2]


def test_a_state_of_the_last_batch_continues_a_pass_of_which_nothing_is_left():
    whole = passes(2)
    loader = fl.Numbers(12)
    for _ in loader:
        state = loader.state_dict()
    resumed = fl.Numbers(12, resume=state)
    assert list(resumed) == [] and flat(list(resumed)) == whole[1]
    loader.load_state_dict({key: state[key] for key in ("feedline", "passes")})  # as earlier versions saved it
    assert list(loader) == [] and flat(list(loader)) == whole[1]


def test_a_state_of_the_end_of_a_pass_that_was_stopped_continues_it():
    whole = passes(2)
    loader = fl.Numbers(12)
    batches = iter(loader)
    first = next(batches).tolist()
    for end in (loader.stop, loader.close):
        end()
        assert list(batches) == []
        state = loader.state_dict()
        resumed = fl.Numbers(12, resume=state)
        assert first + flat(list(resumed)) == whole[0] and flat(list(resumed)) == whole[1]


def test_a_state_of_the_end_after_a_drain_begins_the_next_pass():
    whole = passes(2)
    loader = fl.Numbers(12)
    batches = iter(loader)
    seen = [next(batches)]
    wait_until_ready(loader, 2)
    loader.close(drain=True)
    seen += batches
    resumed = fl.Numbers(12, resume=loader.state_dict())
    rest = flat(list(resumed))
    if flat(seen) == whole[0]:  # the drain may or may not have seen the end
        assert rest in ([], whole[1])
    else:
        assert flat(seen) + rest == whole[0]


def test_a_state_of_the_end_of_a_pass_of_another_run_is_refused():
    loader = fl.Numbers(12, seed=5)
    list(loader)
    with pytest.raises(ValueError, match="seed"):
        next(fl.Numbers(12, seed=7, resume=loader.state_dict()))
    with pytest.raises(ValueError, match="resume"):
        next(fl.Numbers(12, batch_size=3, resume=loader.state_dict()))


def test_a_start_between_two_passes_that_failed_is_made_up_for_by_the_next_one():
    loader = fl.Gated(20)
    list(loader)
    resumed = fl.Gated(20, resume=loader.state_dict())
    fl.set_gate(fl.Gate.broken)
    with pytest.raises(RuntimeError, match="gate is broken"):
        next(resumed)
    fl.set_gate(fl.Gate.open)
    assert flat(list(resumed)) == list(range(20)) == flat(list(resumed))


def test_a_number_of_epochs_makes_a_run_finite():
    for name in ("epochs", "first_epoch"):
        with pytest.raises(ValueError, match=f"^{name} is for a finite run, but infinite is True"):
            fl.Numbers(10, infinite=True, **{name: 1})
        with pytest.raises(ValueError, match=name):
            fl.Names(["a"], 5, False, True, **{name: 1})
        assert len(list(fl.Names(["a"], **{name: 1}))) == 1
        assert len(list(fl.Names(["a"], infinite=False, **{name: 1}))) == 1
        assert repr(fl.Names(["a"], **{name: None})).startswith("<Names: infinite")


@pytest.mark.parametrize("first", [0, 3])
def test_the_epoch_is_that_of_the_last_batch(first):
    loader = fl.Numbers(10, first_epoch=first)
    assert loader.epoch == first
    for n in range(3):
        for _ in loader:
            assert loader.epoch == first + n
        assert loader.epoch == first + n
    state = loader.state_dict()  # of the end of a pass
    resumed = fl.Numbers(10, resume=state)
    assert resumed.epoch == first + 3
    next(resumed)
    assert resumed.epoch == first + 3
    resumed.load_state_dict(resumed.state_dict())
    assert resumed.epoch == first + 3
    loader.close()
    assert loader.epoch == first + 2


def test_a_pass_of_several_epochs_knows_in_which_it_is():
    loader = fl.Numbers(8, batch_size=4, epochs=3)
    assert [loader.epoch for _ in loader] == [0, 0, 1, 1, 2, 2] and loader.epoch == 2
    assert [loader.epoch for _ in loader] == [3, 3, 4, 4, 5, 5]
    next(loader := fl.Numbers(8, batch_size=4, infinite=True))
    assert loader.epoch == 0
    for _ in range(4):
        next(loader)
    assert loader.epoch == 2
    resumed = fl.Numbers(8, batch_size=4, infinite=True, resume=loader.state_dict())
    assert resumed.epoch == 2
    next(resumed)
    assert resumed.epoch == 2
    next(resumed)
    assert resumed.epoch == 3


def test_the_epoch_of_a_resumed_loader_is_that_of_the_last_batch():
    loader = fl.Shuffled(8, infinite=True)  # its buffer holds two epochs
    for _ in range(7):
        next(loader)
    resumed = fl.Shuffled(8, infinite=True, resume=loader.state_dict())
    assert resumed.epoch == loader.epoch == resumed.state_dict()["epoch"] == resumed.epoch  # also after the start
    loader = fl.Numbers(8, batch_size=4, epochs=3)
    for _ in range(3):
        next(loader)
    resumed = fl.Numbers(8, batch_size=4, epochs=3, resume=loader.state_dict())
    assert resumed.epoch == 1
    assert [resumed.epoch for _ in resumed] == [1, 2, 2]
    loader = fl.Numbers(8, batch_size=4, infinite=True)
    next(loader)
    wait_until_ready(loader, 3)
    loader.close(drain=True)
    assert loader.epoch == 0
    next(loader)
    assert loader.epoch == 0 and next(loader) is not None and loader.epoch == 1


def test_the_epoch_of_items_without_one():
    loader = fl.OddNames(2)
    assert loader.epoch == 0
    for _ in range(2):
        assert [loader.epoch for _ in loader][0] == loader.epoch
    assert loader.epoch == 1
    loader = fl.OddNames(2, infinite=True)
    for _ in range(5):
        next(loader)
    assert loader.epoch in (2, 3)  # that of the next item, where one has none


def test_a_batch_shows_the_epochs_of_its_samples_on_request():
    loader = fl.Scaled(3, infinite=True, epoch=True)
    batches = [next(loader) for _ in range(3)]
    assert list(batches[0]) == ["width", "height", "epoch"]
    assert [b["epoch"].tolist() for b in batches] == [[0, 0], [0, 1], [1, 1]] and batches[0]["epoch"].dtype == np.int64
    assert next(fl.Scaled(3, epoch=True, fields="tuple"))[-1].tolist() == [0, 0]
    assert next(fl.Scaled(3, first_epoch=4, epoch=True, fields="namedtuple")).epoch.tolist() == [4, 4]
    assert "epoch" not in next(fl.Scaled(3))
    for other in fl.Numbers, fl.OddNames:
        with pytest.raises(ValueError, match="epoch: only a batch with several fields"):
            other(3, epoch=True)


def test_a_state_with_other_options_that_decide_an_item_is_refused():
    loader = fl.Scaled(6, 2.0, offsets=(5,))
    next(loader)
    state = pickle.loads(pickle.dumps(loader.state_dict()))
    for same in dict(scale=2, offsets=[5]), dict(scale=2.0, offsets=np.array([5]), workers=3):
        assert next(fl.Scaled(6, resume=state, **same))["height"].tolist() == [9, 11]
    for other, words in (dict(scale=3, offsets=[5]), "scale=2.0, here it is 3"), (dict(scale=2), r"offsets=\(5,\), here it is \(0,\)"):
        with pytest.raises(ValueError, match=words):
            fl.Scaled(6, resume=state, **other)
        resumed = fl.Scaled(6, **other)
        with pytest.raises(ValueError, match=words + ".*allow_other_options=True"):
            resumed.load_state_dict(state)
        assert next(resumed)["width"].tolist() == [0, 1]  # as before
    state["options"]["offsets"] = [5]  # as some formats save tuples
    fl.Scaled(6, scale=np.float64(2), offsets=(5,), resume=state)
    assert type(fl.Scaled(6, scale=np.array(2.0)).state_dict()["options"]["scale"]) is float
    allowed = fl.Scaled(6, scale=3, allow_other_options=True, resume=state)
    assert next(allowed)["height"].tolist() == [6, 9]
    assert next(fl.Scaled(6, scale=3, resume=state["feedline"]))["height"].tolist() == [6, 9]  # a checkpoint has no options
    with pytest.raises(ValueError, match="`cuont`, which isn't a parameter"):
        fl.bind_a_check_of_nothing()


def test_a_misspelt_option_is_named_first_with_the_nearest_one():
    with pytest.raises(TypeError, match=r"^Numbers\(\) has no option 'batchsize': did you mean batch_size\?$"):
        fl.Numbers(10, batchsize=3)
    with pytest.raises(TypeError, match=r"^Numbers\(\) has no option 'xyz'$"):
        fl.Numbers(10, xyz=3)


def test_messages_name_the_options_of_python():
    with pytest.raises(ValueError, match="by_sample=True.*infinite=True or remainder=\"keep\"") as caught:
        fl.refuse("invalid_argument", "use rank::by_sample, infinite() or remainder::keep")
    assert "::" not in str(caught.value)


def test_passes_after_a_resumed_one_go_on_with_its_seed_and_epochs():
    def orders(loader, count):
        return [flat(list(loader)) for _ in range(count)]
    whole = orders(fl.Numbers(10, seed=5, first_epoch=3), 3)
    loader = fl.Numbers(10, seed=5, first_epoch=3)
    list(loader)
    first = next(iter(loader)).tolist()
    for resumed in fl.Numbers(10), fl.Numbers(10, seed=5), fl.Numbers(10, first_epoch=3):
        resumed.load_state_dict(loader.state_dict())
        rest, after = orders(resumed, 2)
        assert [first + rest, after] == whole[1:]
    with pytest.raises(ValueError, match="seed"):
        next(fl.Numbers(10, seed=7, resume=loader.state_dict()))
    resumed = fl.Numbers(10)  # states of other passes and seeds replace each other
    of_first_pass = fl.Numbers(10)
    next(of_first_pass)
    for source in loader, of_first_pass, loader:
        resumed.load_state_dict(source.state_dict())
        expected = fl.Numbers(10, **(dict(seed=5, first_epoch=3) if source is loader else {}))
        expected.load_state_dict(source.state_dict())
        assert orders(resumed, 2) == orders(expected, 2)


def test_the_bytes_of_a_checkpoint_are_a_state():
    loader = fl.Numbers(50, infinite=True)
    loader.next()
    resumed = fl.Numbers(50, infinite=True, resume=loader.state_dict()["feedline"])
    assert resumed.next().tolist() == loader.next().tolist()
    finite = fl.Numbers(50)
    batches = iter(finite)
    first = next(batches).tolist()
    state = finite.state_dict()["feedline"]
    rest = flat(list(batches))
    list(finite)
    finite.load_state_dict(state)
    assert flat(list(finite)) == rest and len(first) == 4
    with pytest.raises(ValueError):
        fl.Numbers(50, resume=b"no checkpoint")
    with pytest.raises(TypeError, match="a state is the dict"):
        fl.Numbers(50, resume=3)


def test_data_that_has_grown_is_accepted_on_request():
    loader = fl.Gated(20)
    first = loader.next().tolist()
    state = loader.state_dict()
    with pytest.raises(ValueError, match="allow_grown_data"):
        next(fl.Gated(24, resume=state))
    assert first + flat(list(fl.Gated(24, resume=state, allow_grown_data=True))) == list(range(24))


def test_the_cause_is_what_a_function_of_python_raised():
    def f(n):
        return {3: 7}[n] if n > 2 else n
    assert flat(list(fl.Applied(4, f))) == [0, 1, 2, 7]
    with pytest.raises(fl.PipelineError) as error:
        list(fl.Applied(5, f))
    assert error.value.sample == 4 and type(error.value.__cause__) is KeyError and error.value.__cause__.args == (4,)


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


def test_the_sanitizer_sees_the_module():
    if not hasattr(fl, "use_after_free"):
        pytest.skip("built without AddressSanitizer")
    outcome = run_python("fl.use_after_free()")
    assert outcome.returncode != 0 and "heap-use-after-free" in outcome.stderr


def members(tree, name):
    """The functions of a class in a stub, with their texts and what they return."""
    found = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    functions = [node for node in found.body if isinstance(node, ast.FunctionDef)]
    return found, {f.name: (ast.get_docstring(f) or "", ast.unparse(f.returns), f) for f in functions}


def test_stubs_have_each_member_with_its_text(tmp_path):
    stub = tmp_path / "feedline_test_module.pyi"
    subprocess.run([sys.executable, os.environ["FEEDLINE_STUBS"], fl.__file__, str(stub)], check=True)
    tree = ast.parse(stub.read_text())
    classes = [name for name, value in vars(fl).items() if isinstance(value, type) and not name.startswith("_")]
    assert set(classes) <= {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    for name in ("Numbers", "Examples", "Oddities", "Bfloat16Tensor"):
        cls = getattr(fl, name)
        found, functions = members(tree, name)
        assert ast.get_docstring(found) == cls.__doc__
        for key, value in vars(cls).items():
            signature = callable(value) and (value.__doc__ or "").startswith(key + "(")
            if key.startswith("_") and not signature:  # Python's own
                continue
            text = value.__doc__.partition("\n\n")[2] if callable(value) else value.__doc__ or ""
            assert functions[key][0] == text.strip(), key
            assert text or key in ("shape", "__dlpack__", "__dlpack_device__"), key
    _, numbers = members(tree, "Numbers")
    assert [a.arg for a in numbers["__init__"][2].args.args] == ["self", "count", "batch_size", "fails_at", "message", "waits"]
    assert "seed" in [a.arg for a in numbers["__init__"][2].args.kwonlyargs]
    assert numbers["__next__"][1] == numbers["next"][1] == "numpy.typing.NDArray[numpy.int32]"
    assert numbers["__iter__"][1] == "Iterator[numpy.typing.NDArray[numpy.int32]]"
    assert members(tree, "Oddities")[1]["__next__"][1] == "List[Any]"
    scaled = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "scaled")
    assert ast.unparse(scaled.args) == "by: Sequence[float], counts: Optional[Sequence[int]]=None"
    assert ast.unparse(scaled.returns) == "List[float]"
    assert members(tree, "Examples")[1]["__next__"][1] == "Any"
    assert "pixels: numpy.typing.NDArray[numpy.float32], name: List[bytes]" in fl.Examples.__doc__
    assert {ast.unparse(node) for node in members(tree, "PipelineError")[0].body[1:]} == {
        "stage: str", "sample: Optional[int]", "epoch: int", "origin: str", "message: str"}


@pytest.mark.skipif(shutil.which("mypy") is None, reason="mypy isn't installed")
def test_type_checkers_accept_stubs(tmp_path):
    subprocess.run([sys.executable, os.environ["FEEDLINE_STUBS"], fl.__file__, str(tmp_path / "feedline_test_module.pyi")], check=True)
    (tmp_path / "user.py").write_text("""\
import feedline_test_module as fl
loader = fl.Numbers(3, batch_size=2, seed=1, on_failure=print, resume=None)
with loader as same:
    for batch in same:
        print(batch.mean(), loader.next(timeout=1.5).shape, len(loader), loader.state_dict()["passes"])
try:
    fl.Examples(1).next()
except fl.PipelineError as error:
    print(error.stage.upper())
fl.Numbers(3, sed=1)  # line 10
fl.Numbers(3).next().no_member
next(iter(fl.Numbers(3))).no_member
fl.scaled((0.0, 1.0), counts=[1])
fl.scaled(by=[0.0, 1.0], counts=(1, 2))
""")
    mypy = ["mypy", "--strict", "--cache-dir", "cache", "--python-executable", sys.executable, "feedline_test_module.pyi", "user.py"]
    checked = subprocess.run(mypy, cwd=tmp_path, env=dict(os.environ, LD_PRELOAD=""), capture_output=True, text=True)
    errors = [line.split(" ")[0] for line in checked.stdout.splitlines() if ": error: " in line]
    assert errors == ["user.py:10:", "user.py:11:", "user.py:12:"], checked.stdout
