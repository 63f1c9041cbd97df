# SPDX-License-Identifier: MIT
# Pipelines of Python functions.
import asyncio
import collections
import concurrent.futures
import dataclasses
import functools
import gc
import io
import logging
import os
import pathlib
import pickle
import re
import signal
import struct
import subprocess
import sys
import tarfile
import threading
import time
import types
import unittest.mock
import weakref
import zlib

import numpy as np
import pytest

import feedline
from feedline.pipeline import Context, Pipeline
from support import Counting

PACKAGE = pathlib.Path(feedline.__file__).parent.parent


def numbers(count=50):
    return feedline.iterate(range(count))


def doubled(n):
    return 2 * n


def with_random(n, context):
    return n, context.epoch, context.index, context.rng.random()


def listed(batch):
    return batch.tolist() if isinstance(batch, np.ndarray) else batch


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    for i in range(40):
        (folder / f"{i:02}.txt").write_text(str(i))
    return folder


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    for shard in range(3):
        with tarfile.open(folder / f"{shard}.tar", "w") as tar:
            for i in range(10):
                for kind, data in (("txt", f"text {i}".encode()), ("cls", str(shard).encode())):
                    info = tarfile.TarInfo(f"{shard}/{i}.{kind}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
    return folder


def test_files_are_loaded_shuffled_and_batched(texts):
    def load(path):
        with open(path) as file:
            return {"number": int(file.read()), "path": path}

    train = feedline.files(texts / "*.txt").shuffle(10).map(load, workers=4).batch(16)
    loader = train.finite(seed=7)
    assert len(loader) == 3
    batches = list(loader)
    assert [len(b["path"]) for b in batches] == [16, 16, 8]
    assert batches[0]["number"].dtype == np.int64
    seen = [n for b in batches for n in b["number"].tolist()]
    assert sorted(seen) == list(range(40)) and seen != list(range(40))
    assert all(path == f"{texts}/{n:02}.txt" for b in batches for n, path in zip(b["number"], b["path"]))
    endless = train.infinite(seed=7)
    first = next(endless)["number"].tolist()
    assert len(first) == 16 and next(train.infinite(seed=7))["number"].tolist() == first


@pytest.mark.parametrize("source", ["files", "tar", "lines", "records", "dataset"])
def test_sources_and_their_random_order(source, texts, shards, tmp_path):
    if source == "files":
        make = lambda: feedline.files([str(texts / "0*.txt"), texts / "1?.txt"])
        expected = [f"{texts}/{i:02}.txt" for i in range(20)]
    elif source == "tar":
        make = lambda: feedline.tar(str(shards / "{0..2}.tar"))
        expected = [{"__key__": f"{s}/{i}", "txt": f"text {i}".encode(), "cls": str(s).encode()} for s in range(3) for i in range(10)]
    elif source == "lines":
        (tmp_path / "a").write_text("one\ntwo\n\nfour é\n")
        make = lambda: feedline.lines(tmp_path / "a")
        expected = ["one", "two", "", "four é"]
    elif source == "records":
        (tmp_path / "a").write_bytes(bytes(range(30)))
        make = lambda: feedline.records(tmp_path / "a", 3)
        expected = [bytes(range(i, i + 3)) for i in range(0, 30, 3)]
    else:
        data = [f"element {i}" for i in range(25)]
        make = lambda: feedline.dataset(data)
        expected = data
    assert list(make().finite()) == expected
    assert len(make().finite()) == len(expected)
    shuffled = (lambda: feedline.dataset(data, shuffle=True, workers=3)) if source == "dataset" else (lambda: make().global_shuffle())
    runs = [list(shuffled().finite(seed=seed, epochs=2)) for seed in (1, 1, 2)]
    key = lambda items: sorted(map(str, items))
    assert key(runs[0]) == key(expected + expected)
    assert runs[0] == runs[1]
    if len(expected) > 5:
        assert runs[0] != runs[2] and runs[0][:len(expected)] != runs[0][len(expected):]
    ranks = [list(shuffled().finite(seed=1, rank=r, world_size=2, remainder="keep")) for r in range(2)]
    assert key(ranks[0] + ranks[1]) == key(expected)


@pytest.mark.parametrize("workers", [1, 2, 8, 64])
def test_the_number_of_workers_changes_nothing(workers):
    make = lambda n: numbers(300).map(doubled, workers=n).filter(lambda n: n % 3, workers=n).flat_map(
        lambda n: range(n % 4), workers=n).shuffle(20).map(with_random, workers=n).batch(7).finite(seed=3, epochs=2)
    one, many = ([[listed(column) for column in batch] for batch in make(n)] for n in (1, workers))
    assert one == many and len(one) > 40


def test_random_numbers_are_those_of_seed_stage_epoch_and_sample():
    def run(seed, **options):
        return list(numbers(5).map(with_random).finite(seed=seed, **options))

    assert run(1) == run(1)
    values = [r for _, _, _, r in run(1, epochs=2) + run(2)]
    assert len(set(values)) == 15
    assert run(1, epochs=2)[5:] == run(1, first_epoch=1)
    two_stages = list(numbers(1).map(lambda n, c: c.rng.random()).map(lambda x, c: (x, c.rng.random())).finite())[0]
    assert two_stages[0] != two_stages[1]


def test_by_completion_items_come_in_any_order():
    gate = threading.Event()

    def wait_for_others(n):
        if n == 0:
            gate.wait(20)
        if n == 1:
            gate.set()
        return n

    loader = numbers(20).map(wait_for_others, workers=4, ordered=False).finite()
    assert sorted(loader) == list(range(20))
    with pytest.raises(Exception, match="order"):
        numbers(20).map(doubled, workers=4, ordered=False).finite().state_dict()


@pytest.mark.parametrize("source", ["iterate", "files", "tar"])
@pytest.mark.parametrize("infinite", [False, True])
def test_a_state_continues_behind_the_last_batch(source, infinite, texts, shards):
    def make(workers):
        p = {"iterate": numbers, "files": lambda: feedline.files(texts / "*.txt").global_shuffle(),
             "tar": lambda: feedline.tar(str(shards / "*.tar"))}[source]()
        p = p.map(str, workers=workers).flat_map(lambda s: [s, s + "!"]).shuffle(12).map(
            lambda s, c: (s, c.rng.random()), workers=workers).shuffle(3).batch(4)
        return p.infinite(seed=5) if infinite else p.finite(seed=5, epochs=2)

    def take(loader, count):
        return [(texts, list(numbers)) for texts, numbers in (b for _, b in zip(range(count), loader))]

    whole = take(make(2), 45)
    for at in (n for n in (0, 1, 2, 7, 13, 24, 25, 26, 29, 31, 44) if n < len(whole)):
        loader = make(3)
        if at:
            assert take(loader, at) == whole[:at]
        state = pickle.loads(pickle.dumps(loader.state_dict()))
        loader.close()
        other = make(1)
        other.load_state_dict(state)
        assert take(other, 45 - at)[:len(whole) - at] == whole[at:], at


def test_a_state_of_other_stages_is_refused():
    state = numbers().map(doubled).batch(4).finite().state_dict()
    for other in (numbers().map(str).batch(4), numbers().map(doubled, name="twice").batch(4), numbers().map(doubled).batch(5),
                  numbers().map(doubled).shuffle(2).batch(4)):
        with pytest.raises(ValueError):
            list(other.finite(resume=state))


def test_a_failure_names_stage_and_sample_and_has_the_traceback(texts):
    def load(path):
        return int(pathlib.Path(path).read_text()) // (0 if path.endswith("07.txt") else 1)

    p = feedline.files(texts / "*.txt").map(load, workers=3).batch(4)
    with pytest.raises(feedline.PipelineError) as caught:
        list(p.finite())
    error = caught.value
    assert (error.stage, error.sample, error.epoch) == ("map `load`", 7, 0)
    assert error.origin.endswith("07.txt")
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert error.__cause__.__traceback__.tb_frame.f_code.co_name == "load"
    assert "test_python_pipeline.py" in error.message and "in load" in error.message or ": load" in error.message

    seen = []
    loader = p.finite(on_error="skip", on_failure=seen.append)
    assert sum(len(b) for b in loader) == 39
    assert [f["sample"] for f in loader.failures()] == [7] == [f["sample"] for f in seen]
    with pytest.raises(feedline.PipelineError, match="load"):
        list(numbers(20).map(lambda n: 1 // 0, name="load").finite(on_error="skip", failure_limit=3))


@pytest.mark.parametrize("add", [lambda p, f: p.map(f), lambda p, f: p.filter(f), lambda p, f: p.flat_map(f),
                                 lambda p, f: p.batch(1, collate=f), lambda p, f: p.bucket_batch([9], length=f, batch_size=1)])
def test_each_kind_of_function_may_raise_anything(add):
    for error in (ValueError("text"), KeyboardInterrupt(), SystemExit(3), StopIteration(), KeyError(b"\xff")):
        def raises(item):
            raise error

        with pytest.raises(feedline.PipelineError) as caught:
            list(add(numbers(3), raises).finite())
        assert type(caught.value.__cause__) is type(error)


def test_a_generator_that_fails_in_the_middle_keeps_what_it_yielded():
    def parts(n):
        yield n
        if n == 1:
            raise ValueError("broken")
        yield -n

    assert list(numbers(3).flat_map(parts).finite(on_error="skip")) == [0, 0, 1, 2, -2]


def test_a_flat_map_reads_its_iterator_as_needed():
    made = []

    def endless(n):
        while True:
            made.append(n)
            yield n

    with numbers(3).flat_map(endless).prefetch(5).finite() as loader:
        assert next(loader) == 0
    assert len(made) < 100_000


def test_none_is_a_failure_of_map():
    with pytest.raises(feedline.PipelineError, match="the function returned None: to leave out items, use filter or flat_map"):
        list(numbers(1).map(lambda n: None).finite())


@pytest.mark.parametrize("function, words", [(3, "a stage needs a function"), (lambda: 1, "can't be called with an item"),
                                             (lambda a, b, c: 1, "can't be called with an item"), (lambda a, *, b: 1, "can't be called")])
def test_what_isnt_a_function_of_an_item_is_refused_at_once(function, words):
    for add in (Pipeline.map, Pipeline.filter, Pipeline.flat_map):
        with pytest.raises(TypeError, match=words):
            add(numbers(), function)


def test_functions_of_many_kinds():
    class Scale:
        def __init__(self, factor):
            self.factor = factor

        def __call__(self, n):
            return self.factor * n

        def method(self, n, context):
            return self.factor * n + context.index

    def add(n, to=3):
        return n + to

    assert list(numbers(3).map(Scale(5)).finite()) == [0, 5, 10]
    assert list(numbers(3).map(unittest.mock.Mock(return_value=1)).finite()) == [1, 1, 1]
    assert list(numbers(3).map(Scale(5).method).finite()) == [0, 6, 12]
    assert list(numbers(3).map(functools.partial(add, to=1)).finite()) == [1, 2, 3]
    assert list(numbers(3).map(add).map(str).map(int).finite()) == [3, 4, 5]
    loader = numbers(3).map(Scale(2)).map(functools.partial(add, to=1)).map(add, name="more").finite()
    assert list(loader) == [4, 6, 8]
    names = [s["name"] for s in loader.metrics()["stages"]]
    assert names == ["iterable", "map `Scale`", "map `add`", "map `more`"]


def test_batches_are_stacked_by_field():
    Pair = collections.namedtuple("Pair", "left right")

    @dataclasses.dataclass
    class Example:
        image: np.ndarray
        weight: float
        halved: float = dataclasses.field(init=False, default=0)

        def __post_init__(self):
            if not isinstance(self.weight, float):
                raise ValueError("no number")

    def make(n):
        return {"array": np.full((2, 3), n, np.float32), "number": n, "flag": n > 0, "text": str(n), "bytes": b"x", "nested": {"a": (n, [n])},
                "pair": Pair(n, -n), "example": Example(np.array([n]), n / 2)}

    batch = next(numbers(3).map(make).batch(3).finite())
    assert batch["array"].shape == (3, 2, 3) and batch["array"].dtype == np.float32
    assert batch["number"].tolist() == [0, 1, 2] and batch["flag"].dtype == bool
    assert batch["text"] == ["0", "1", "2"] and batch["bytes"] == [b"x"] * 3
    assert batch["nested"]["a"][0].tolist() == [0, 1, 2] and batch["nested"]["a"][1] == [[0], [1], [2]]
    assert isinstance(batch["pair"], Pair) and batch["pair"].right.tolist() == [0, -1, -2]
    assert isinstance(batch["example"], Example) and batch["example"].image.shape == (3, 1) and batch["example"].weight[2] == 1
    assert next(numbers(3).batch(3, collate=tuple).finite()) == (0, 1, 2)
    masked = next(numbers(2).map(lambda n: np.ma.array([n, 2], mask=[n, 0])).batch(2).finite())
    assert masked.mask.tolist() == [[False, False], [True, False]]
    for wrong in (numbers(2).batch(2), numbers(2).map(lambda n: {"epoch": n}).batch(2), numbers(2)):
        with pytest.raises(ValueError, match="epoch"):
            next(wrong.finite(epoch=True))
    kept = numbers(3).map(lambda n: {"n": n}).batch(2).map(lambda b: {"m": -b["n"]}).finite(epoch=True)
    assert next(kept)["epoch"].tolist() == [0, 0]
    sizes = [len(b) for b in numbers(10).batch(4, drop_last=True).finite()]
    assert sizes == [4, 4]
    loader = numbers(3).map(lambda n: {"n": n}).batch(2).infinite(epoch=True)
    assert [next(loader)["epoch"].tolist() for _ in range(3)] == [[0, 0], [0, 1], [1, 1]]
    assert loader.epoch == 1


@pytest.mark.parametrize("make, words", [
    (lambda n: {"image": np.zeros(n + 1)}, r"different shapes at \['image'\]: \(1,\) and \(2,\)"),
    (lambda n: {"a": 1} if n == 0 else {"b": 1}, r"different fields: \['a'\] and \['b'\]"),
    (lambda n: ((1, 2) if n == 0 else (1,),), r"different elements at \[0\]: 2 and 1"),
    (lambda n: 1 if n == 0 else "text", "can't be stacked"),
    (lambda n: 2 ** 63 + 1 if n == 0 else -5, "no type of whole numbers has all"),
    (lambda n: {"x": 1} if n == 0 else 5, "different fields"),
])
def test_a_batch_whose_items_dont_fit_names_the_field(make, words):
    with pytest.raises(feedline.PipelineError, match=words) as caught:
        list(numbers(2).map(make).batch(2).finite())
    assert "collate" in caught.value.stage


def test_buckets_by_length():
    batches = list(numbers(40).map(lambda n: "x" * (n % 10)).bucket_batch([3, 6], batch_size=5).finite())
    assert sorted(len(t) for b in batches for t in b) == sorted(n % 10 for n in range(40))
    assert all(max(map(len, b)) <= 3 or min(map(len, b)) > 3 for b in batches)
    tokens = list(numbers(40).map(lambda n: "x" * (n % 10)).bucket_batch([3, 6], length=len, max_tokens=12).finite())
    assert all(max(map(len, b)) * len(b) <= 12 for b in tokens)


def test_take_and_prefetch():
    assert list(numbers(50).take(3).map(doubled).finite(epochs=2)) == [0, 2, 4, 0, 2, 4]
    assert list(numbers(50).map(doubled).prefetch(7).take(2).finite()) == [0, 2]


def test_an_iterable_is_read_again_in_each_epoch():
    class Data:
        def __init__(self):
            self.epochs = []

        def set_epoch(self, epoch):
            self.epochs.append(epoch)

        def __iter__(self):
            return iter(range(3))

    data = Data()
    assert list(feedline.iterate(data).finite(epochs=2)) == [0, 1, 2] * 2
    assert data.epochs[:2] == [0, 1]

    def generate():
        yield from "ab"

    assert list(feedline.iterate(generate).finite(epochs=2)) == ["a", "b"] * 2
    assert len(feedline.iterate([1, 2, 3]).map(doubled).batch(2).finite(epochs=2)) == 4
    for unknown in (feedline.iterate(generate), feedline.iterate([1]).filter(bool)):
        with pytest.raises(TypeError, match="has no length"):
            len(unknown.finite())
    with pytest.raises(TypeError, match="an iterator can be read only once"):
        feedline.iterate(generate())
    with pytest.raises(feedline.PipelineError, match="not iterable"):
        list(feedline.iterate(lambda: 3).finite())

    def fails():
        yield 1
        raise OSError("no more")

    loader = feedline.iterate(fails).finite()
    assert next(loader) == 1
    with pytest.raises(feedline.PipelineError, match="no more"):
        next(loader)


def test_an_iterable_with_a_state_continues_without_reading_what_came_before():
    run = feedline.iterate(Counting(1000)).map(doubled).prefetch(3).finite()
    before = [next(run) for _ in range(700)]
    state = run.state_dict()
    other = Counting(1000)
    rest = list(feedline.iterate(other).map(doubled).prefetch(3).finite(resume=state))
    assert before + rest == [2 * n for n in range(1, 1001)]
    assert len(other.read) < 900


def test_a_state_is_loaded_before_the_iteration_begins():
    class Data:
        at = 0

        def __iter__(self):
            return self.from_number(self.at)  # which is read now

        def from_number(self, first):
            for self.at in range(first + 1, 101):
                yield self.at

        def state_dict(self):
            return {"at": self.at}

        def load_state_dict(self, state):
            self.at = state["at"]

    run = feedline.iterate(Data()).map(doubled).finite()
    before = [next(run) for _ in range(60)]
    assert before + list(feedline.iterate(Data()).map(doubled).finite(resume=run.state_dict())) == [2 * n for n in range(1, 101)]


def test_ranks_share_an_iterable():
    parts = [list(numbers(10).map(doubled).finite(rank=r, world_size=3, remainder="keep")) for r in range(3)]
    assert sorted(sum(parts, [])) == [2 * n for n in range(10)] and [len(p) for p in parts] == [4, 3, 3]


async def wait_a_little(n):
    await asyncio.sleep(0.001 * (n % 5))
    return n


def test_async_functions_keep_the_order_and_wait_together():
    running, most = 0, 0

    async def count(n):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return n

    assert list(numbers(100).map(wait_a_little).finite()) == list(range(100))
    assert list(numbers(60).map(count, concurrency=7).finite()) == list(range(60))
    assert 2 <= most <= 7
    result = list(numbers(10).map(with_context, concurrency=2).batch(5).finite(seed=1))
    assert [b[0].tolist() for b in result] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


async def with_context(n, context):
    return n, context.rng.random()


def test_async_functions_fail_and_time_out():
    async def fails(n):
        await asyncio.sleep(0)
        if n == 3:
            raise ValueError("three")
        if n == 5:
            await asyncio.sleep(100)
        return n

    loader = numbers(8).map(fails, timeout=0.2).finite(on_error="skip")
    assert list(loader) == [0, 1, 2, 4, 6, 7]
    assert [f["sample"] for f in loader.failures()] == [3, 5]
    assert "TimeoutError: no result after 0.2 s" in loader.failures()[1]["message"]


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, asyncio.CancelledError, GeneratorExit, TimeoutError])
def test_whatever_an_async_function_raises_fails_its_sample_alone(error):
    async def fails(n):
        await asyncio.sleep(0)
        if n % 4 == 1:
            raise error("unlucky")
        return None if n % 4 == 3 else n

    other = numbers(30).map(wait_a_little).finite()
    next(other)
    loader = numbers(8).map(fails).finite(on_error="skip")
    assert list(loader) == [0, 2, 4, 6]
    assert [f["sample"] for f in loader.failures()] == [1, 3, 5, 7]
    assert error.__name__ in loader.failures()[0]["message"] and "None" in loader.failures()[1]["message"]
    assert [next(other) for _ in range(29)] == list(range(1, 30))


def test_async_functions_count_and_have_limits():
    async def count(n, context):
        await asyncio.sleep(0)
        context.count("even", n % 2 == 0)
        return "x" * n

    loader = numbers(10).map(count, max_item_bytes=57).finite(on_error="skip")
    assert len(list(loader)) == 9 and loader.failures()[0]["sample"] == 9
    assert "58 bytes, more than max_item_bytes, 57" in loader.failures()[0]["message"]
    assert "even" in str(loader.metrics())


def test_a_stop_leaves_no_coroutine_behind():
    outcome = run("""
import asyncio, feedline, gc, threading
started = threading.Event()
def begin(n):
    started.set()
    return n
async def slow(n):
    await asyncio.sleep(100)
for timeout in (None, 50):
    for _ in range(20):
        loader = feedline.iterate(range(100)).map(begin).map(slow, timeout=timeout, concurrency=20).infinite()
        started.clear()
        threading.Thread(target=lambda: started.wait(60) and loader.stop()).start()
        assert list(loader) == []
        loader.close()
gc.collect()
""")
    assert outcome.returncode == 0 and outcome.stderr == "", outcome


def test_executors_that_fail():
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        pass
    with pytest.raises(feedline.PipelineError, match="after shutdown"):
        list(numbers(3).map(doubled, executor=threads).finite())

    class Cancelling(concurrent.futures.Executor):
        _max_workers = 2

        def submit(self, function, *arguments):
            future = concurrent.futures.Future()
            future.cancel()
            return future

    with pytest.raises(feedline.PipelineError, match="CancelledError"):
        list(numbers(3).map(doubled, executor=Cancelling()).finite())


def test_a_stop_cancels_async_functions():
    started, cancelled = threading.Event(), threading.Event()

    async def forever(n):
        started.set()
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    loader = numbers(8).map(forever).finite()
    threading.Thread(target=lambda: (started.wait(20), loader.stop())).start()
    assert list(loader) == []
    loader.close()
    assert cancelled.wait(20)


async def the_same(item):
    return dict(item)


def test_batches_keep_their_epochs_through_functions():
    batches = numbers(8).map(lambda n: {"n": n}).batch(4)
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        for p in (batches, batches.map(dict), batches.map(the_same), batches.map(dict, executor=threads), batches.filter(len)):
            epochs = [b["epoch"].tolist() for b in p.finite(epochs=2, epoch=True)]
            assert epochs == [[0] * 4, [0] * 4, [1] * 4, [1] * 4]


def test_the_context_of_an_async_function_ends_with_its_call():
    kept, calls = [], []

    async def keep(n, context):
        for earlier in kept:
            earlier.count("afterwards", 1)
            earlier.on_stop(lambda: calls.append(n))
        kept.append(context)
        await asyncio.sleep(0)
        context.count("in time", 1)
        return n

    loader = numbers(20).map(keep, concurrency=1).prefetch(1).finite()
    assert [next(loader) for _ in range(10)] == list(range(10))
    loader.close()
    assert "afterwards" not in str(loader.metrics()) and "in time" in str(loader.metrics()) and calls == []


def test_what_a_stop_finds_before_its_start_never_starts():
    blocked, scheduled, began = threading.Event(), threading.Event(), []

    async def forever(n):
        began.append(n)
        blocked.set()
        scheduled.wait(20)  # nothing else can start
        await asyncio.sleep(1000)

    loader = numbers(2).map(lambda n: n if n == 0 or blocked.wait(20) else None).map(forever, concurrency=2).finite()

    def stop():
        blocked.wait(20)
        time.sleep(0.2)  # the second call waits for the loop
        loader.stop()

    threading.Thread(target=stop).start()
    assert list(loader) == []
    loader.close()
    scheduled.set()
    assert list(numbers(3).map(wait_a_little).finite()) == [0, 1, 2]
    assert began == [0]


def test_an_executor_does_the_work():
    with concurrent.futures.ThreadPoolExecutor(3) as threads:
        assert list(numbers(20).map(doubled, executor=threads).finite()) == [2 * n for n in range(20)]
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=__import__("multiprocessing").get_context("spawn")) as processes:
        results = list(numbers(6).map(pow_of_two, executor=processes, workers=2).finite())
        assert [r for r, _ in results] == [2 ** n for n in range(6)]
        assert os.getpid() not in {pid for _, pid in results}
        with pytest.raises(feedline.PipelineError) as caught:
            list(numbers(6).map(int.bit_count if hasattr(int, "bit_count") else str, executor=processes).map(doubled).map(lambda n: 1 // 0).finite())
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
    for wrong in (dict(executor=threads, timeout=3), dict(executor=threads, concurrency=3), dict(concurrency=3), dict(timeout=3)):
        with pytest.raises(ValueError):
            numbers().map(doubled, **wrong)
    with pytest.raises(ValueError, match="set concurrency"):
        numbers().map(wait_a_little, workers=3)


def pow_of_two(n):
    return 2 ** n, os.getpid()


def test_wrong_options():
    for wrong in (lambda p: p.map(doubled, workers=0), lambda p: p.map(doubled, workers=1000), lambda p: p.batch(0), lambda p: p.prefetch(0),
                  lambda p: p.shuffle(0), lambda p: p.shuffle(3, min_size=4), lambda p: p.global_shuffle(),
                  lambda p: p.map(doubled).global_shuffle(), lambda p: p.bucket_batch([3]), lambda p: p.bucket_batch([3, 1], batch_size=2)):
        with pytest.raises(ValueError):
            wrong(numbers())
    with pytest.raises(TypeError, match="did you mean seed"):
        numbers().finite(sed=3)
    with pytest.raises(TypeError, match="iterate over what its finite"):
        iter(numbers())
    with pytest.raises(RuntimeError, match="no file in"):
        feedline.files("/nowhere*/*.jpg")
    with pytest.raises(FileNotFoundError, match="typo.jpg"):
        feedline.files(["/typo.jpg"])
    with pytest.raises(FileNotFoundError, match="a folder"):
        feedline.files("/")
    with pytest.raises(ValueError, match="concurrency must be"):
        numbers().map(wait_a_little, concurrency=1000)
    with pytest.raises(ValueError):
        feedline.files([])


def test_a_function_may_keep_and_change_what_it_gets():
    kept = []

    def keep(item, context):
        kept.append((item, context))
        item.append(1)
        return item

    batches = list(numbers(10).map(lambda n: [n]).map(keep, workers=2).batch(5).finite())
    assert batches[0] == [[n, 1] for n in range(5)]
    assert sorted(i[0] for i, _ in kept) == list(range(10))
    contexts = [c for _, c in kept]
    contexts[0].count("late")  # after the call: nothing happens
    assert contexts[0].rng.random() >= 0 and contexts[0].stopped  # by the end of its run
    contexts[0].on_stop(lambda: None)


def test_calls_at_a_stop_end_with_the_call_that_asked_for_them():
    started, calls = threading.Event(), []

    def parts(n, context):
        context.on_stop(lambda: (time.sleep(0.1), calls.append(n)))
        context.on_stop(lambda: calls.append(-n))
        context.count("parts")
        if n == 1:
            started.set()
            while not context.stopped:
                time.sleep(0.001)
        yield n

    loader = numbers(2).map(lambda n: n + 1).flat_map(parts).prefetch(1).finite()
    thread = threading.Thread(target=lambda: (started.wait(20), loader.stop()))
    thread.start()
    assert list(loader) == []
    loader.close()
    thread.join()
    assert sorted(calls) == [-1, 1]
    assert "parts" in str(loader.metrics())

    async def own(n, context):
        context.on_stop(lambda: calls.append("async"))
        started.set()
        await asyncio.sleep(1000)

    started.clear()
    loader = numbers(2).map(own, concurrency=1).finite()
    thread = threading.Thread(target=lambda: (started.wait(20), loader.stop()))
    thread.start()
    assert list(loader) == []
    loader.close()
    thread.join()
    assert calls[2:] in ([], ["async"])  # the call may end before


def test_a_stop_doesnt_wait_for_an_executor():
    gate, started, ended = threading.Event(), threading.Event(), threading.Event()

    def work(n):
        started.set()
        gate.wait(30)
        ended.set()

    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        loader = numbers(3).map(work, executor=threads).finite()
        thread = threading.Thread(target=lambda: (started.wait(20), loader.stop()))
        thread.start()
        assert list(loader) == []
        loader.close()
        assert not ended.is_set()
        gate.set()
        thread.join()


def test_only_map_calls_async_functions():
    async def wait(n):
        return n

    async def generate(n):
        yield n

    for wrong in (lambda p: p.filter(wait), lambda p: p.flat_map(generate), lambda p: p.batch(2, collate=wait),
                  lambda p: p.bucket_batch([3], length=wait, batch_size=2), lambda p: p.flat_map(wait)):
        with pytest.raises(TypeError, match="async, which only map"):
            wrong(numbers())
    with pytest.raises(TypeError, match="generate is an async generator"):
        numbers().map(generate)
    with pytest.raises(TypeError, match="async, which only map"):
        feedline.tar("a.tar", fields={"cls": wait})
    for timeout in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="timeout must be above 0"):
            numbers().map(wait, timeout=timeout)


def test_a_failed_call_doesnt_keep_its_variables():
    alive = weakref.WeakSet()

    def fails(n):
        item = Item(n)
        alive.add(item)
        raise ValueError(n)

    loader = numbers(50).map(fails).finite(on_error="skip")
    assert list(loader) == [] and len(loader.failures()) == 50
    gc.collect()
    assert len(alive) == 0


def test_loaders_of_one_iterable_with_a_state_dont_disturb_each_other():
    p = feedline.iterate(Counting(100)).shuffle(10)
    one, two = p.finite(seed=1), p.finite(seed=1)
    assert all(next(one) == next(two) for _ in range(30))
    assert sorted(list(p.finite(seed=2))) == list(range(1, 101))
    for _ in zip(range(20), one):
        pass
    assert sorted(one) == list(range(1, 101))  # a new pass, from the beginning
    run = p.infinite(seed=3)
    for _ in range(250):
        next(run)
    state = run.state_dict()
    rest = [next(run) for _ in range(100)]
    other = p.infinite(resume=state)
    assert [next(other) for _ in range(100)] == rest


def test_a_function_that_takes_from_its_loader_fails():
    box = []

    def takes(n):
        return next(box[0]) if n == 3 else n

    box.append(numbers(10).map(takes).prefetch(1).finite())
    with pytest.raises(feedline.PipelineError, match="inside this loader"):
        list(box[0])
    box.clear()


def test_numbers_of_functions_are_metrics():
    def count(n, context):
        context.count("even", n % 2 == 0)
        return n

    loader = numbers(10).map(count, workers=3).finite()
    assert len(list(loader)) == 10
    assert "even" in str(loader.metrics()) and "map `count`" in loader.metrics_text()
    assert isinstance(loader.waiting_for(), str) and "map" in loader.memory()


def arrays(n):
    return {"index": n, "values": np.full(1000, n)}  # 8 kB


@pytest.mark.parametrize("workers", [1, 5])
def test_a_memory_budget_behind_functions(workers):
    def run(**options):
        mapped = numbers_of_bytes().map(arrays, workers=workers, max_item_bytes=9000)
        return [b["index"].tolist() for b in mapped.filter(lambda item: item["index"] % 3).shuffle(20).batch(8).finite(seed=1, **options)]

    def numbers_of_bytes():
        return feedline.iterate(range(100), max_item_bytes=100)

    assert run(memory_budget=3_000_000) == run()
    with pytest.raises(ValueError, match="memory_budget of .* is too small"):
        run(memory_budget=300_000)
    parts = numbers_of_bytes().flat_map(lambda n: [arrays(n)] * 2, workers=workers, max_item_bytes=9000).batch(4)
    assert len(list(parts.finite(memory_budget=3_000_000))) == 50
    by_length = numbers_of_bytes().map(lambda n: "x" * n, max_item_bytes=200).bucket_batch([50, 100], batch_size=10)
    assert sum(len(b) for b in by_length.finite(memory_budget=3_000_000)) == 100
    padded = numbers_of_bytes().batch(4, collate=lambda items: np.full(100, len(items)), max_item_bytes=1000)
    assert len(list(padded.finite(memory_budget=3_000_000))) == 25


@pytest.mark.parametrize("make", [
    lambda: numbers(),
    lambda: feedline.dataset([1, 2, 3]),
    lambda: feedline.iterate([1], max_item_bytes=100).map(str),
    lambda: feedline.iterate([1], max_item_bytes=100).map(str, max_item_bytes=100).map(len),
    lambda: feedline.iterate([1], max_item_bytes=100).flat_map(lambda n: [n]),
    lambda: feedline.iterate([1], max_item_bytes=100).batch(2, collate=list),
    lambda: feedline.iterate([1], max_item_bytes=100).windows(2),
    lambda: feedline.concat(feedline.iterate([1], max_item_bytes=100), feedline.iterate([1])),
    lambda: feedline.zip(feedline.iterate([1], max_item_bytes=100).map(str), feedline.iterate([1], max_item_bytes=100)),
])
def test_a_memory_budget_needs_to_know_the_items(make):
    with pytest.raises(ValueError, match="set max_item_bytes of the function"):
        make().finite(memory_budget=10**9).memory()


def test_known_sizes_of_all_kinds_keep_to_a_budget(texts, shards):
    known = feedline.iterate([1, 2, 3], max_item_bytes=100)
    for make in (
            lambda: feedline.files(texts / "*.txt").map(len, max_item_bytes=100).batch(3),
            lambda: feedline.lines(texts / "*.txt", max_line_bytes=50).map(int, workers=3, max_item_bytes=100).batch(3),
            lambda: feedline.tar(shards / "*.tar", max_item_bytes=10_000).map(len, max_item_bytes=100),
            lambda: feedline.dataset(range(10), max_item_bytes=100).batch(3),
            lambda: feedline.dataset(range(10), shuffle=True, max_item_bytes=100),
            lambda: known.windows(2, max_item_bytes=8),
            lambda: feedline.concat(known, known.map(doubled, max_item_bytes=100)),
            lambda: feedline.zip(known, known.map(doubled, max_item_bytes=100)).batch(2),
            lambda: feedline.mix((known, 1), (known.map(doubled, max_item_bytes=100), 2)),
            lambda: known.map(wait_a_little, max_item_bytes=100)):
        assert [listed_item(i) for i in make().finite(memory_budget=100_000_000)] == [listed_item(i) for i in make().finite()]


def listed_item(item):
    return [part.tolist() for part in item] if isinstance(item, tuple) and isinstance(item[0], np.ndarray) else listed(item)


@dataclasses.dataclass
class Pair:
    left: object
    right: object


@pytest.mark.parametrize("large", [
    np.zeros(200, np.uint8)[:5], np.zeros(100), b"x" * 200, "x" * 200, {"a": ["x" * 50, "y" * 50]}, (1, ("x" * 200,)), {"x" * 200},
    Pair(1, "x" * 200), [Pair(None, np.zeros(50))], list(range(300, 330))])
def test_a_larger_item_fails(large):
    def make(n):
        return large if n == 1 else n

    for p in (numbers(3).map(make, max_item_bytes=180), feedline.iterate(range(3)).flat_map(lambda n: [make(n)], max_item_bytes=180),
              feedline.dataset([0, large, 2], max_item_bytes=180), numbers(3).map(make).batch(1, collate=lambda l: l[0], max_item_bytes=180)):
        loader = p.finite(on_error="skip")
        assert list(loader) == [0, 2]
        assert "more than max_item_bytes, 180" in loader.failures()[0]["message"]
    assert list(numbers(2).map(make, max_item_bytes=100_000).finite())[1] is large
    with pytest.raises(feedline.PipelineError, match="max_item_bytes"):
        list(feedline.iterate([1, large], max_item_bytes=180).finite())


def test_an_item_that_holds_itself_has_a_size():
    def around(n):
        item = [n]
        item.append(item)
        return item

    assert len(list(numbers(2).map(around, max_item_bytes=1000).finite())) == 2
    deep = functools.reduce(lambda inner, _: [inner], range(5000), 1)
    assert list(numbers(1).map(lambda n: deep, max_item_bytes=400_000).finite())[0] is deep


class Slotted:
    __slots__ = "value", "never_set"

    def __init__(self, value):
        self.value = value


class Private:
    __slots__ = "__value",

    def __init__(self, value):
        self.__value = value


class Rude(dict):
    def items(self):
        raise RuntimeError("mine")

    def __sizeof__(self):
        raise RuntimeError("mine")


class Guarded:
    def __getattr__(self, name):
        raise ValueError(f"no {name}")


class Named(dict):
    pass


def with_attribute(item, value):
    item.extra = value
    return item


LARGE = 100_000


@pytest.mark.parametrize("make", [
    lambda: np.zeros(LARGE, np.uint8), lambda: np.zeros(LARGE, np.uint8)[:5], lambda: np.zeros(LARGE, np.uint8).reshape(10, -1)[0],
    lambda: np.broadcast_to(np.uint8(1), (LARGE,)), lambda: np.frombuffer(bytes(LARGE), np.uint8, 5), lambda: memoryview(bytes(LARGE)),
    lambda: np.array([bytes(LARGE), None], object), lambda: np.array([(bytes(LARGE), 1)], [("a", object), ("b", int)]),
    lambda: memoryview(bytes(LARGE))[:5], lambda: functools.partial(len, bytes(LARGE)), lambda: iter([bytes(LARGE)]),
    lambda: ValueError(bytes(LARGE)), lambda: Private(bytes(LARGE)), lambda: np.ma.MaskedArray(np.zeros(LARGE // 2, np.uint8), mask=np.ones(LARGE // 2)),
    lambda: Slotted(bytes(LARGE)), lambda: collections.deque([bytes(LARGE)]), lambda: types.MappingProxyType({"a": bytes(LARGE)}),
    lambda: with_attribute(Named(), bytes(LARGE)), lambda: with_attribute(Pair(1, 2), bytes(LARGE)), lambda: [[[[bytes(LARGE)]]]],
    lambda: [bytes(LARGE // 2), bytearray(LARGE // 2)], lambda: {bytes(LARGE): 1},
    lambda: [part for whole in [np.zeros(LARGE, np.uint8)] for part in (whole[:5], whole[5:9])]])
def test_an_item_has_the_bytes_of_all_that_it_holds(make):
    bytes_of = lambda most: list(numbers(1).map(lambda n: make(), max_item_bytes=most).finite())
    assert len(bytes_of(LARGE + 2000)) == 1
    with pytest.raises(feedline.PipelineError, match=f"more than max_item_bytes, {LARGE - 1}"):
        bytes_of(LARGE - 1)


@pytest.mark.parametrize("make", [
    lambda: Guarded(), lambda: Rude(a=1), lambda: Slotted(1), lambda: [np, LARGE, make_array],
    lambda: with_attribute(Named(), logging.getLogger("x")), lambda: [WHOLE[:5], WHOLE[7:9]], lambda: [WHOLE[:5]] * 10])
def test_what_others_hold_too_doesnt_count(make):
    assert len(list(numbers(1).map(lambda n: make(), max_item_bytes=2000).finite())) == 1


WHOLE = np.zeros(10_000_000, np.uint8)


def make_array(n):
    return WHOLE


def test_rows_of_an_array_are_a_dataset_with_a_limit(tmp_path):
    assert len(list(feedline.dataset(np.zeros((100, 10_000), np.uint8), max_item_bytes=11_000).batch(10).finite(memory_budget=10**8))) == 10
    np.save(tmp_path / "a.npy", np.zeros((100, 10_000), np.uint8))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    assert len(list(feedline.dataset(mapped, max_item_bytes=12_000).finite(memory_budget=10**8))) == 100


@pytest.mark.parametrize("stage", [lambda p: p.filter(lambda sample: True), lambda p: p.batch(2)])
def test_samples_of_shards_are_larger_as_pythons(shards, stage):
    budget, known = dict(memory_budget=10**9), dict(max_item_bytes=10_000)
    with pytest.raises(ValueError, match="isn't known"):
        stage(feedline.tar(shards / "*.tar")).finite(**budget).memory()
    assert len(list(stage(feedline.tar(shards / "*.tar", **known)).finite(**budget))) > 0
    name = sorted(next(feedline.tar(shards / "*.tar").finite()))[-1]
    assert len(list(stage(feedline.tar(shards / "*.tar", fields={name: bytes}, **known)).finite(**budget))) > 0
    assert len(list(stage(feedline.concat(feedline.tar(shards / "*.tar", **known))).finite(**budget))) > 0
    sampled = stage(feedline.tar(shards / "*.tar").sampled([0, 1, 2], **known))
    assert len(list(sampled.finite(**budget))) > 0
    with pytest.raises(feedline.PipelineError, match="max_item_bytes, 10"):
        list(feedline.tar(shards / "*.tar", max_item_bytes=10).finite())
    small = feedline.iterate([1], max_item_bytes=100)
    raw = feedline.tar(shards / "*.tar")
    for parts in ([small, raw], [raw, small], [raw, small.map(str, max_item_bytes=100)], [small, raw.map(len, max_item_bytes=100)]):
        with pytest.raises(ValueError, match="isn't known"):
            stage(feedline.concat(*parts)).finite(**budget).memory()
    for p in (raw.map(len, max_item_bytes=100), raw.flat_map(list, max_item_bytes=100), raw.batch(2, collate=len, max_item_bytes=100)):
        with pytest.raises(ValueError, match="isn't known"):
            p.finite(**budget).memory()
    with pytest.raises(feedline.PipelineError, match="at least 24 bytes, more than max_item_bytes, 16"):
        list(feedline.iterate([[1, 2], [3, 4, 5]], max_item_bytes=1000).windows(2, max_item_bytes=16).finite())


def test_pairs_take_what_both_parts_take():
    part = feedline.iterate([1, 2], max_item_bytes=100).map(doubled, max_item_bytes=5000)
    each = lambda p: float(re.search(r"-> caller +\d+ +([\d.]+) KB", p.finite().memory())[1])
    assert 5 < each(feedline.concat(part, part)) < 5.3 and 10 < each(feedline.zip(part, part)) < 10.6


def test_texts_may_be_four_times_as_large_as_pythons(tmp_path):
    (tmp_path / "a.txt").write_text("\U0001f600" + 96 * "x" + "\n")

    texts = feedline.lines(tmp_path / "a.txt", max_line_bytes=100)
    assert sys.getsizeof(next(texts.finite())) > 400
    assert re.search(r"lines -> caller +\d+ +272 bytes", texts.finite().memory())
    assert re.search(r"filter `bool` -> caller +\d+ +1.0 KB", texts.filter(bool).finite().memory())


@pytest.mark.parametrize("value", ["1 MB", 1e6, [], b"1"])
def test_sizes_that_are_no_numbers(value):
    for make in (lambda: numbers().map(doubled, max_item_bytes=value), lambda: feedline.iterate([], max_item_bytes=value),
                 lambda: feedline.lines(__file__, max_line_bytes=value)):
        with pytest.raises(TypeError, match="_bytes is a whole number of bytes, not"):
            make()


@pytest.mark.parametrize("value", [0, -1, 2**60, 2**70])
def test_wrong_sizes(value):
    for make in (lambda: numbers().map(doubled, max_item_bytes=value), lambda: feedline.iterate([], max_item_bytes=value),
                 lambda: numbers().batch(2, max_item_bytes=value), lambda: numbers().windows(2, max_item_bytes=value),
                 lambda: feedline.lines(__file__, max_line_bytes=value)):
        with pytest.raises(ValueError, match="_bytes must be from 1 to"):
            make()


class Item:
    """Can be referred to weakly."""

    def __init__(self, n):
        self.n = n


def test_items_are_freed_when_a_run_is_left():
    alive = weakref.WeakSet()

    def make(n):
        item = Item(n)
        alive.add(item)
        return item

    for leave in ("end", "close", "break", "delete"):
        loader = numbers(500).map(make, workers=3).shuffle(50).filter(lambda i: i.n % 3).batch(3).finite()
        for i, batch in enumerate(loader):
            if leave != "end" and i == 5:
                break
        if leave == "close":
            loader.close()
        del batch, loader
        gc.collect()
        assert len(alive) == 0, leave


def test_a_loader_that_its_functions_refer_to_is_collected():
    class Module:
        def __init__(self):
            self.loader = feedline.iterate(self.data).map(self.load, workers=2).batch(3).infinite()

        def data(self):
            return range(10)

        def load(self, n):
            return n

    before = len(os.listdir("/proc/self/task"))
    for begins in (False, True):
        module = Module()
        if begins:
            next(module.loader)
        gone = weakref.ref(module)
        del module
        gc.collect()
        assert gone() is None
    deadline = time.monotonic() + 20
    while len(os.listdir("/proc/self/task")) > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(os.listdir("/proc/self/task")) <= before


def test_functions_that_refer_to_their_loader_run_until_it_is_collected():
    # The collector clears a function before the loader that calls it.
    outcome = run("""
import feedline, gc, sys, time
sys.setswitchinterval(1e-4)
class Box: pass
def work(box, n):
    return [n, box.factor]
end = time.monotonic() + 2
while time.monotonic() < end:
    box = Box()
    box.factor = 3
    def f(n, box=box):
        return work(box, n)
    def g(n):
        return work(box, n)
    box.loader = feedline.iterate(range(1000)).map(f, workers=2).map(lambda x: x[0]).map(g, workers=2).infinite()
    next(box.loader)
    del box, f, g
    gc.collect()
""")
    assert outcome.returncode == 0 and outcome.stderr == "", outcome


def test_a_loader_isnt_pickled_and_doesnt_work_in_a_child():
    loader = numbers(10).map(doubled).finite()
    with pytest.raises(TypeError):
        pickle.dumps(loader)
    next(loader)
    pid = os.fork()
    if pid == 0:
        try:
            next(loader)
        except RuntimeError:
            os._exit(0 if list(numbers(3).map(doubled).finite()) == [0, 2, 4] else 2)
        os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0


def run(code):
    return subprocess.run([sys.executable, "-c", code], env=dict(os.environ, PYTHONPATH=str(PACKAGE)), capture_output=True, text=True, timeout=100)


def test_ctrl_c_while_functions_work():
    outcome = run("""
import feedline, os, signal, threading, time
def slow(n):
    time.sleep(0.3)
    return n
loader = feedline.iterate(range(100)).map(slow).infinite()
threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
begin = time.monotonic()
try:
    for _ in range(100): next(loader)
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - begin < 10)
""")
    assert outcome.stdout.split()[:1] == ["interrupted"] and outcome.returncode == 0, outcome


@pytest.mark.parametrize("ends", ["", "loader.close()", "del loader"])
def test_the_interpreter_ends_while_coroutines_call_cpp(ends):
    outcome = run(f"""
import asyncio, feedline
inner = feedline.iterate(range(3)).finite()
async def load(n):
    await asyncio.sleep(0.001)
    for _ in range(20): inner.memory()   # without Python's lock
    return n
loader = feedline.iterate(range(10000)).map(load).infinite()
for i, x in zip(range(3), loader): pass
{ends}
""")
    assert outcome.returncode == 0 and outcome.stderr == "", outcome


@pytest.mark.parametrize("code", [
    "next(l)", "pass", "list(zip(range(50), l))", "use_in_another_thread()",
    "next(l); del p", "next(l); import sys; sys.exit(0)"])
def test_the_interpreter_ends_with_runs_at_work(code):
    outcome = run(f"""
import feedline, asyncio, threading, time
async def wait(n):
    await asyncio.sleep(0.001)
    return n
def use_in_another_thread():
    def use():
        try:
            for b in l: pass
        except RuntimeError:  # at the end the interpreter's thread is inside, too
            pass
    threading.Thread(target=use, daemon=True).start()
p = feedline.iterate(range(1000)).map(lambda n: [n], workers=3).map(wait).shuffle(10).batch(2)
l = p.infinite()
{code}
""")
    assert outcome.returncode == 0 and outcome.stderr == "", outcome


def test_several_loaders_of_one_pipeline_at_once():
    p = numbers(50).map(doubled, workers=2).shuffle(9).batch(5)
    loaders = [p.infinite(seed=s) for s in (1, 1, 2)]
    rows = [[next(l).tolist() for l in loaders] for _ in range(30)]
    assert all(a == b for a, b, _ in rows) and any(a != c for a, _, c in rows)


def test_pytorchs_loader_takes_one():
    torch = pytest.importorskip("torch")

    class Wrapped(torch.utils.data.IterableDataset):
        def __init__(self, loader):
            self.loader = loader

        def __iter__(self):
            return iter(self.loader)

    p = numbers(10).map(lambda n: torch.full((2,), n)).batch(5)
    batches = list(torch.utils.data.DataLoader(Wrapped(p.finite()), batch_size=None))
    assert [b.shape for b in batches] == [(5, 2), (5, 2)]


def batches_and_last(loader):
    """Each batch, and whether it is the last: as a trainer that takes one ahead."""
    iterator = iter(loader)
    ahead = next(iterator, None)
    while ahead is not None:
        batch, ahead = ahead, next(iterator, None)
        yield batch, ahead is None


def test_a_trainer_that_takes_one_batch_ahead_and_validates_between():
    train = numbers(40).shuffle(10).map(doubled, workers=2).batch(4).finite(seed=1)
    check = numbers(20).map(doubled, workers=2).batch(4).finite()
    assert len(train) == 10 and len(check) == 5
    validated, epochs = [], []
    for _, batch in zip(range(2), check):  # it looks whether validation works, before anything else
        assert len(batch) == 4
    for epoch in range(3):
        seen = []
        for step, (batch, is_last) in enumerate(batches_and_last(train)):
            assert is_last == (step == len(train) - 1) and train.epoch == epoch
            seen += batch.tolist()
            if (step + 1) % 5 == 0:
                validated.append([b.tolist() for b, _ in batches_and_last(check)])
        epochs.append(seen)
    assert all(sorted(seen) == list(range(0, 80, 2)) for seen in epochs) and epochs[0] != epochs[1] != epochs[2]
    assert len(validated) == 6 and all(v == validated[0] and len(v) == 5 for v in validated)


def test_live_views_and_reports_of_functions(tmp_path):
    code = f"""
import feedline, time
loader = feedline.iterate(range(200)).map(lambda n: time.sleep(0.001) or n, name="careful", workers=2).batch(4).finite()
with loader.live_view(every=0.02), loader.recorder() as record:
    list(loader)
    record.report({str(tmp_path / "report.html")!r})
"""
    outcome = run(code)
    assert outcome.returncode == 0 and "careful" in outcome.stderr, outcome
    assert "careful" in (tmp_path / "report.html").read_text()


def test_importing_the_package_is_fast():
    # Not its time, which depends on the machine: what it imports.
    outcome = run("import sys, feedline, feedline.images\nprint([m for m in ('asyncio', 'torch', 'multiprocessing') if m in sys.modules])")
    if outcome.returncode == 0:
        assert outcome.stdout.strip() == "[]"


def png(pixels):
    """The bytes of an RGB image."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows))
            + chunk(b"IEND", b""))


def images(tmp_path):
    rng = np.random.default_rng(1)
    with tarfile.open(tmp_path / "all.tar", "w") as tar:
        for i in range(5):
            (tmp_path / f"{i}.png").write_bytes(png(rng.integers(0, 255, (40 + i, 60, 3), np.uint8)))
            tar.add(tmp_path / f"{i}.png", f"{i}.png")
            info = tarfile.TarInfo(f"{i}.cls")
            info.size = 1
            tar.addfile(info, io.BytesIO(b"3"))
    return tmp_path


def test_patterns_of_files(tmp_path):
    for name in ("a/1.jpg", "a/b/2.jpg", "other/sub/3.jpg", "other/4.txt", "odd[1].jpg", "q/other/5.jpg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    def found(*names, **options):
        return [os.path.relpath(p, tmp_path) for p in feedline.files([tmp_path / n for n in names], **options).finite()]

    assert found("a/*.jpg") == ["a/1.jpg"]
    assert found("a/*.jpg", recursive=True) == ["a/1.jpg", "a/b/2.jpg"]
    assert found("other/*.jpg", "a/*.jpg", recursive=True) == ["a/1.jpg", "a/b/2.jpg", "other/sub/3.jpg"]
    assert found("**/*.jpg") == ["a/1.jpg", "a/b/2.jpg", "odd[1].jpg", "other/sub/3.jpg", "q/other/5.jpg"]
    assert found("odd[1].jpg") == ["odd[1].jpg"]
    assert found("a/../a/1.jpg", "a/1.jpg") == ["a/1.jpg"]
    folder = os.fsencode(tmp_path) + b"/\xff"
    os.mkdir(folder)
    open(folder + b"/x.jpg", "wb").close()
    assert [os.fsencode(p) for p in feedline.files(folder + b"/*.jpg").finite()] == [folder + b"/x.jpg"]


def test_members_have_the_types_that_fields_names(tmp_path):
    array = io.BytesIO()
    np.save(array, np.arange(3))
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for i in range(3):
            for kind, data in {"cls": b"%d\n" % i, "json": b'{"a": [1]}', "txt": "é".encode(), "npy": array.getvalue(), "bin": b"\0"}.items():
                if (i, kind) == (1, "txt"):
                    data = b"\xff"
                if (i, kind) != (2, "json"):
                    info = tarfile.TarInfo(f"{i}.{kind}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
    fields = {"cls": int, "json": dict, "txt": str, "npy": np.ndarray, "bin": bytes}
    loader = feedline.tar(tmp_path / "a.tar", fields=fields).finite(on_error="skip")
    samples = list(loader)
    assert len(samples) == 1 and samples[0].pop("npy").tolist() == [0, 1, 2]
    assert samples == [{"__key__": "0", "cls": 0, "json": {"a": [1]}, "txt": "é", "bin": b"\0"}]
    messages = [f["message"] for f in loader.failures()]
    assert "member 'txt'" in messages[0] and "the sample has no member 'json', only" in messages[1]
    assert next(feedline.tar(tmp_path / "a.tar", fields={"bin": len}).finite()) == {"__key__": "0", "bin": 1}
    shuffled = feedline.tar(tmp_path / "a.tar", fields={"cls": int}).global_shuffle().finite(seed=2)
    assert sorted(s["cls"] for s in shuffled) == [0, 1, 2]
    with pytest.raises(TypeError, match="fields"):
        feedline.tar(tmp_path / "a.tar", fields={"cls": "int"})


def test_native_functions_decode_paths_bytes_and_members(tmp_path):
    pytest.importorskip("feedline.images")
    folder = images(tmp_path)
    decode = functools.partial(feedline.images.decode, size=16, crop="center", image="png", dtype="uint8", layout="NHWC")
    expected = next(feedline.images.Loader(str(folder / "all.tar"), batch_size=5, image="png", size=16, crop="center", dtype="uint8", layout="NHWC",
                                           infinite=False, shuffle=False))["image"]
    by_path = feedline.files(folder / "*.png").map(decode(), workers=2).batch(5)
    assert np.array_equal(next(by_path.finite()), expected)
    by_bytes = feedline.files(folder / "*.png").map(lambda p: pathlib.Path(p).read_bytes()).map(decode()).batch(5)
    assert np.array_equal(next(by_bytes.finite()), expected)
    members = feedline.tar(folder / "all.tar").map(decode()).batch(5)
    assert np.array_equal(next(members.finite())["png"], expected)
    changed = feedline.tar(folder / "all.tar").map(lambda d: {"png": d["png"], "label": int(d["cls"])}).map(decode()).batch(5)
    batch = next(changed.finite())
    assert np.array_equal(batch["png"], expected) and batch["label"].tolist() == [3] * 5
    assert np.array_equal(decode()(folder / "2.png"), expected[2])
    limited = lambda most: list(feedline.files(folder / "*.png").map(decode(), max_item_bytes=most).batch(5).finite(memory_budget=10**8))
    assert np.array_equal(limited(2000)[0], expected)
    with pytest.raises(feedline.PipelineError, match="more than max_item_bytes, 700"):
        limited(700)
    random = lambda seed: next(feedline.files(folder / "*.png").map(feedline.images.decode(size=16), workers=3).batch(5).finite(seed=seed))
    assert np.array_equal(random(1), random(1)) and not np.array_equal(random(1), random(2))
    with pytest.raises(feedline.PipelineError, match="map `decode` failed on sample 0"):
        next(numbers(3).map(lambda n: b"no image").map(decode()).finite())
    with pytest.raises(feedline.PipelineError):
        next(numbers(3).map(decode()).finite())
    with pytest.raises(feedline.PipelineError, match="png"):
        next(numbers(3).map(lambda n: {"jpg": b""}).map(decode()).finite())
    with pytest.raises(ValueError, match="runs without Python.s lock"):
        numbers().map(decode(), timeout=3)


def test_the_readmes_types_and_repr():
    assert isinstance(Context, type) and "finite" in repr(numbers(3).finite())
