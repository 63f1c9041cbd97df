# SPDX-License-Identifier: MIT
# feedline.chess as its users see it.
import copy
import dataclasses
import gc
import gzip
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import tarfile
import threading
import time

import numpy as np
import pytest

from feedline._native import chess as native
from feedline.chess import (Batch, BatchWithValues, ChunkSourceLoader, ChunkUnpacker, DataLoader, DataLoaderConfig,
                            FilePathProvider, PipelineError, ShufflingChunkPool, ShufflingFrameSampler, TensorGenerator)
from support import run_program

RECORD = np.dtype([
    ("version", "<u4"), ("input_format", "<u4"), ("probabilities", "<f4", 1858), ("planes", "<u8", 104), ("castling", "u1", 4),
    ("side_to_move", "u1"), ("rule50", "u1"), ("invariance", "u1"), ("dep_result", "u1"), ("root_q", "<f4"), ("best_q", "<f4"),
    ("root_d", "<f4"), ("best_d", "<f4"), ("root_m", "<f4"), ("best_m", "<f4"), ("plies_left", "<f4"), ("result_q", "<f4"),
    ("result_d", "<f4"), ("played_q", "<f4"), ("played_d", "<f4"), ("played_m", "<f4"), ("orig", "<f4", 3), ("visits", "<u4"),
    ("played_index", "<u2"), ("best_index", "<u2"), ("policy_kld", "<f4"), ("reserved", "<u4")])
SHAPES = [(112, 8, 8), (1858,), (3,), (3,), ()]


def records(game, positions):
    """The records of a made-up game. No two positions of all games are equal: their number is in the second plane."""
    random = np.random.default_rng(game)
    all_records = np.zeros(positions, RECORD)
    for i, r in enumerate(all_records):
        r["version"], r["input_format"] = 6, random.choice([1, 2, 3, 4, 5, 132, 133])
        r["probabilities"] = -1
        r["probabilities"][random.choice(1858, 30, replace=False)] = random.random(30)
        r["planes"] = random.integers(0, 2**64, 104, np.uint64)
        r["planes"][1] = game * 1000 + i
        r["castling"] = random.integers(0, 2, 4)
        r["side_to_move"], r["rule50"], r["invariance"] = random.integers(0, 2), i, random.integers(0, 256)
        r["best_q"], r["result_q"], r["played_q"] = random.uniform(-0.5, 0.5, 3)
        r["root_d"], r["best_d"], r["result_d"] = random.random(3) / 2
        r["plies_left"] = positions - i
    return all_records.tobytes()


def write_games(folder, count, positions=10):
    folder.mkdir(exist_ok=True)
    for game in range(count):
        (folder / f"{game}.gz").write_bytes(gzip.compress(records(game, positions), 1))
    return folder


@pytest.fixture(scope="module")
def games(tmp_path_factory):
    return write_games(tmp_path_factory.mktemp("games"), 8)


def config(games, batch=16, reservoir=20, workers=2, window=None, anchor=None, values=False, **run):
    return DataLoaderConfig(
        FilePathProvider(games), shuffling_chunk_pool=ShufflingChunkPool(window, anchor),
        chunk_unpacker=ChunkUnpacker(workers), shuffling_frame_sampler=ShufflingFrameSampler(reservoir),
        tensor_generator=TensorGenerator(batch, values), **run)


def rows(batches):
    """The bytes of each position's tuple, in the layout of the program chess_tuples."""
    return [b"".join(array[i].tobytes() for array in batch) for batch in batches for i in range(len(batch.plies_left))]


def bytes_of(batch):
    return b"".join(array.tobytes() for array in batch)


def tuples_of(chunk, folder):
    out = folder / "tuples.f32"
    run_program("FEEDLINE_CHESS_TUPLES", "--chunk", chunk, "--out", out)
    size = 4 * (112 * 64 + 1858 + 3 + 3 + 1)
    content = out.read_bytes()
    assert len(content) % size == 0
    return [content[at:at + size] for at in range(0, len(content), size)]


def take(loader, count):
    return [bytes_of(batch) for _, batch in zip(range(count), loader)]


# ---- the configuration


def test_names_and_defaults_are_those_of_the_pipeline():
    options = native.Options()
    defaults = {}
    for stage in (ChunkSourceLoader(), ChunkUnpacker(), ShufflingFrameSampler(), TensorGenerator()):
        defaults.update(dataclasses.asdict(stage))
    assert defaults.pop("sampling_seed") is None and defaults.pop("blunders") is None  # the seed of the run; none
    for name, value in defaults.items():
        assert getattr(options, name) == value, name
    of_the_pipeline = {name for name in dir(options) if not name.startswith("_")} - {"correct_blunders"}
    assert of_the_pipeline == set(defaults) | {"sampling_seed"}
    assert options.sampling_seed == DataLoaderConfig(FilePathProvider("g")).seed == 0
    ChunkUnpacker(workers=native.most_workers)
    with pytest.raises(ValueError):
        ChunkUnpacker(workers=native.most_workers + 1)


@pytest.mark.parametrize("make, sentence", [
    (lambda: FilePathProvider([]), "file_path_provider.games must name at least one"),
    (lambda: FilePathProvider(["a", ""]), "file_path_provider.games"),
    (lambda: ChunkSourceLoader("v8"), "chunk_source_loader.format must be one of 'any', 'v6', 'v7', not 'v8'"),
    (lambda: ShufflingChunkPool(window=0), "shuffling_chunk_pool.window must be from 1"),
    (lambda: ShufflingChunkPool(anchor="a"), "shuffling_chunk_pool.anchor needs shuffling_chunk_pool.window"),
    (lambda: ChunkUnpacker(workers=0), "chunk_unpacker.workers must be from 1 to 256, not 0"),
    (lambda: ChunkUnpacker(sampling=1.5), "chunk_unpacker.sampling must be from 0 to 1, not 1.5"),
    (lambda: ChunkUnpacker(sampling=float("nan")), "chunk_unpacker.sampling"),
    (lambda: ChunkUnpacker(sampling_seed=-1), "chunk_unpacker.sampling_seed"),
    (lambda: ChunkUnpacker(blunders=3), "chunk_unpacker.blunders"),
    (lambda: ShufflingFrameSampler(0), "shuffling_frame_sampler.reservoir"),
    (lambda: ShufflingFrameSampler(10, 11), "shuffling_frame_sampler.min_fill is 11, above shuffling_frame_sampler.reservoir"),
    (lambda: TensorGenerator(0), "tensor_generator.batch"),
    (lambda: config("g", seed=2**64), "data_loader_config.seed"),
    (lambda: config("g", epochs=0), "data_loader_config.epochs"),
    (lambda: config("g", epochs=2), "data_loader_config.epochs is 2, but data_loader_config.infinite is True"),
    (lambda: config("g", on_error="ignore"), "data_loader_config.on_error must be one of 'skip', 'fail'"),
    (lambda: config("g", failure_limit=-1), "data_loader_config.failure_limit"),
    (lambda: config("g", memory_budget=-1), "data_loader_config.memory_budget"),
    (lambda: config("g", rank=1), "data_loader_config.rank and data_loader_config.world_size belong together"),
    (lambda: config("g", rank=2, world_size=2), "data_loader_config.rank is 2, but must be below"),
    (lambda: config(["a", "b"], window=3), "shuffling_chunk_pool.window needs file_path_provider.games with one folder"),
])
def test_a_wrong_value_is_refused_by_its_name(make, sentence):
    with pytest.raises(ValueError) as error:
        make()
    assert sentence in str(error.value)


@pytest.mark.parametrize("make, sentence", [
    (lambda: FilePathProvider(7), "file_path_provider.games"),
    (lambda: FilePathProvider(["a", None]), "file_path_provider.games"),
    (lambda: FilePathProvider(b"a"), "file_path_provider.games"),
    (lambda: ChunkUnpacker(workers="2"), "chunk_unpacker.workers must be a number, not '2'"),
    (lambda: ChunkUnpacker(workers=2.0), "chunk_unpacker.workers"),
    (lambda: TensorGenerator(batch=True), "tensor_generator.batch"),
    (lambda: TensorGenerator(values=1), "tensor_generator.values must be True or False"),
    (lambda: ShufflingChunkPool(3, anchor=4), "shuffling_chunk_pool.anchor must be the key of a chunk or None"),
    (lambda: config("g", on_failure=3), "data_loader_config.on_failure must be a function or None"),
    (lambda: DataLoaderConfig("games"), "data_loader_config.file_path_provider must be a FilePathProvider"),
    (lambda: DataLoader("games"), "DataLoader takes a DataLoaderConfig"),
])
def test_a_wrong_type_is_refused_by_its_name(make, sentence):
    with pytest.raises(TypeError) as error:
        make()
    assert sentence in str(error.value)


def test_numbers_may_be_numpys(games):
    numbers = dict(batch=np.int64(16), reservoir=np.uint32(20), workers=np.int8(2), seed=np.uint64(3), epochs=np.int32(2))
    loader = DataLoader(config(games, infinite=False, **numbers))
    assert config(games, infinite=False, **numbers) == loader.config == config(games, seed=3, epochs=2, infinite=False)
    assert len(rows(loader)) == 160
    ChunkUnpacker(sampling=np.float32(0.5), blunders=np.float64(1))
    for wrong in (lambda: TensorGenerator(batch=np.float64(8)), lambda: TensorGenerator(batch=np.bool_(True))):
        with pytest.raises(TypeError, match="tensor_generator.batch must be a number"):
            wrong()


def test_options_cannot_change_but_can_be_copied_and_saved():
    c = config("g", seed=3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        c.seed = 4
    assert dataclasses.replace(c, seed=4).seed == 4
    assert pickle.loads(pickle.dumps(c)) == copy.deepcopy(c) == c
    assert FilePathProvider(pathlib.Path("g")) == FilePathProvider("g") == FilePathProvider(["g"])


# ---- batches


def test_a_pass_yields_each_position_once_with_the_bytes_of_chess_tuples(games, tmp_path):
    expected = [t for chunk in sorted(games.iterdir()) for t in tuples_of(chunk, tmp_path)]
    found = rows(DataLoader(config(games, infinite=False)))
    assert len(set(expected)) == len(expected) == 80
    assert sorted(found) == sorted(expected) and found != expected


def test_without_a_shuffle_a_chunk_has_the_order_of_chess_tuples(games, tmp_path):
    chunk = games / "3.gz"
    assert rows(DataLoader(config(chunk, reservoir=1, infinite=False))) == tuples_of(chunk, tmp_path)


def test_a_batch_is_a_tuple_of_float_arrays(games):
    loader = DataLoader(config(games))
    batch = next(loader)
    assert isinstance(batch, Batch) and isinstance(batch, tuple)
    planes, probabilities, winner, best_q, plies_left = batch
    assert [array.shape[1:] for array in batch] == SHAPES and all(len(array) == 16 for array in batch)
    assert all(array.dtype == np.float32 and array.flags.c_contiguous and not array.flags.owndata for array in batch)
    assert np.allclose(winner.sum(1), 1) and np.allclose(best_q.sum(1), 1)
    assert batch.probabilities is probabilities and (probabilities == -1).sum(1).tolist() == [1828] * 16

    batch = DataLoader(config(games, values=True)).next()
    assert isinstance(batch, BatchWithValues) and batch.values.shape == (16, 6, 3)
    assert np.isnan(batch.values[:, 5, 2]).all()
    assert np.array_equal(batch.values[:, 0, 2], batch.plies_left)


def test_batches_outlive_the_loader_and_do_not_change(games):
    loader = DataLoader(config(games, batch=4))
    kept = [next(loader) for _ in range(30)]  # more than the pipeline keeps memory for
    bytes_then = [bytes_of(batch) for batch in kept]
    del loader
    gc.collect()
    assert [bytes_of(batch) for batch in kept] == bytes_then


def test_the_seed_determines_the_batches_and_workers_do_not(games):
    first = take(DataLoader(config(games, seed=3)), 12)
    assert take(DataLoader(config(games, seed=3, workers=7)), 12) == first
    assert take(DataLoader(config(games, seed=4)), 12) != first


def test_each_option_reaches_the_pipeline(games, tmp_path):
    base = config(games, infinite=False, seed=5)
    whole = rows(DataLoader(base))

    def changed(**stages):
        return rows(DataLoader(dataclasses.replace(base, **stages)))

    some = changed(chunk_unpacker=ChunkUnpacker(sampling=0.5))
    assert len(some) < 80 and set(some) < set(whole)
    assert sorted(changed(chunk_unpacker=ChunkUnpacker(sampling=0.5, sampling_seed=5))) == sorted(some)
    assert sorted(changed(chunk_unpacker=ChunkUnpacker(sampling=0.5, sampling_seed=6))) != sorted(some)
    assert sorted(changed(chunk_unpacker=ChunkUnpacker(blunders=0.1))) != sorted(whole)
    assert sorted(changed(chunk_unpacker=ChunkUnpacker(blunders=2))) == sorted(whole)
    assert changed(shuffling_frame_sampler=ShufflingFrameSampler(60)) != whole
    assert changed(shuffling_frame_sampler=ShufflingFrameSampler(20, 5)) != whole
    assert len(changed(epochs=2)) == 160
    endless = dataclasses.replace(base, infinite=True, tensor_generator=TensorGenerator(40),
                                  shuffling_frame_sampler=ShufflingFrameSampler(1))
    shares = [set(rows([next(DataLoader(dataclasses.replace(endless, rank=r, world_size=2)))])) for r in (0, 1)]
    assert shares[0] | shares[1] == set(whole)  # the first pass of each
    with pytest.raises(ValueError, match="rank"):
        changed(rank=0, world_size=2)
    assert len(DataLoader(config(games, batch=7, infinite=False)).next().plies_left) == 7
    with pytest.raises(PipelineError, match="requested version is 7"):
        changed(chunk_source_loader=ChunkSourceLoader("v7"), on_error="fail")
    with pytest.raises(ValueError, match="memory"):
        changed(memory_budget=1000)


def test_archives_folders_and_files_may_be_mixed(games, tmp_path):
    with tarfile.open(tmp_path / "more.tar", "w") as archive:
        for name in ("0.gz", "1.gz"):
            archive.add(games / name, name)
    loader = DataLoader(config([tmp_path / "more.tar", games / "2.gz", games], infinite=False))
    assert loader.chunks == 11
    assert len(rows(loader)) == 110


# ---- positions in the stream


def test_a_state_continues_after_the_last_batch(games):
    c = config(games, seed=2)
    whole = take(DataLoader(c), 14)
    for count in (0, 1, 5, 9):
        loader = DataLoader(c)
        seen = [bytes_of(loader.next()) for _ in range(count)]
        state = pickle.loads(pickle.dumps(loader.state_dict()))
        assert seen + take(DataLoader(dataclasses.replace(c, chunk_unpacker=ChunkUnpacker(5)), resume=state), 14 - count) == whole
        other = DataLoader(c)
        other.next()
        other.load_state_dict(state)
        assert seen + take(other, 14 - count) == whole
    with pytest.raises(ValueError, match="state_dict"):
        DataLoader(c, resume={})
    with pytest.raises(Exception, match="checkpoint"):
        next(DataLoader(config(games, batch=17, seed=2), resume=state))


def test_passes_have_different_orders(games):
    loader = DataLoader(config(games, infinite=False))
    first, second = rows(loader), rows(loader)
    assert sorted(first) == sorted(second) and first != second


def test_each_for_begins_a_pass(games):
    c = config(games, infinite=False)
    loader = DataLoader(c)
    whole = [rows(loader) for _ in range(4)]
    loader = DataLoader(c)
    for batch in loader:
        break
    batches = iter(loader)
    assert rows([next(batches)]) + rows(batches) == whole[1]
    state = loader.state_dict()
    assert rows(loader) == whole[2]
    resumed = DataLoader(c, resume=state)
    assert [rows(resumed), rows(resumed)] == whole[2:]


def test_a_run_keeps_to_a_memory_budget(games, tmp_path):
    whole = rows(DataLoader(config(games, infinite=False)))
    loader = DataLoader(config(games, infinite=False, memory_budget=3_000_000_000))
    text = loader.memory()
    assert "chunk unpacker" in text and "?" not in text
    assert rows(loader) == whole and loader.memory() == text
    assert len(rows(DataLoader(config(games, window=100, infinite=False, memory_budget=3_000_000_000)))) == 80
    with pytest.raises(ValueError, match="memory_budget of .* is too small"):
        next(DataLoader(config(games, memory_budget=1_000_000)))


def wait_for(condition):
    end = time.monotonic() + 100
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def arrive(folder, number):
    """Adds a game as its writer should: with a name that changes when it is complete."""
    (folder / f".{number}").write_bytes(gzip.compress(records(number, 10), 1))
    (folder / f".{number}").rename(folder / f"{number}.gz")


def test_an_anchor_counts_the_games_that_arrived_since(tmp_path):
    folder = write_games(tmp_path / "games", 5)
    notices = []
    loader = DataLoader(config(folder, window=6, on_notice=notices.append))
    assert len(loader.next().plies_left) == 16
    assert loader.anchor == "" and loader.chunks == 5
    key = loader.reset_anchor()
    assert key == loader.anchor and pathlib.Path(key).parent == folder and loader.chunks_since_anchor == 0
    arrive(folder, 5)
    arrive(folder, 6)
    wait_for(lambda: loader.chunks_since_anchor == 2)
    assert loader.chunks == 6  # the window
    gauges = loader.metrics()["stages"]["shuffling chunk pool"]["gauges"]
    assert gauges["window"]["latest"] == 6 and {"chunks", "since anchor", "passes"} < set(gauges)
    assert notices
    newest = loader.reset_anchor()
    assert pathlib.Path(newest).name == "6.gz"
    loader.set_anchor(key)
    with pytest.raises(RuntimeError, match="DataLoader.anchor"):
        loader.state_dict()
    loader.close()

    again = DataLoader(config(folder, window=6, anchor=newest))
    again.next()
    assert again.anchor == newest
    arrive(folder, 7)
    wait_for(lambda: again.chunks_since_anchor == 1)
    with pytest.raises(ValueError, match="shuffling_chunk_pool.anchor"):
        DataLoader(config(folder, window=6), resume={})


def test_a_live_pool_can_be_read_once(tmp_path):
    folder = write_games(tmp_path / "games", 5)
    assert len(set(rows(DataLoader(config(folder, window=100, infinite=False))))) == 50


def test_without_a_window_there_is_no_anchor(games):
    loader = DataLoader(config(games))
    for use in (lambda: loader.anchor, loader.reset_anchor, lambda: loader.set_anchor("x"),
                lambda: loader.chunks_since_anchor):
        with pytest.raises(RuntimeError, match="shuffling_chunk_pool.window"):
            use()


# ---- metrics and failures


def test_metrics_are_nested_by_stage(games):
    loader = DataLoader(config(games, infinite=False))
    count = len(list(loader))
    metrics = loader.metrics()
    stages = metrics["stages"]
    assert list(stages) == ["shuffling chunk pool", "chunk loader", "chunk validator", "chunk rescorer", "chunk unpacker",
                            "shuffling frame sampler", "batch", "tensor generator"]
    for stage in stages.values():
        assert list(stage) == ["load", "items", "queue", "gauges"]
        assert list(stage["load"]) == ["threads", "busy", "busy_seconds", "mean_seconds"]
        assert list(stage["items"]) == ["received", "emitted", "failures"]
    assert stages["chunk loader"]["items"] == {"received": 8, "emitted": 8, "failures": 0}
    assert stages["chunk unpacker"]["items"]["emitted"] == 80
    assert stages["chunk loader"]["queue"] is None  # its threads unpack, too
    assert stages["chunk unpacker"]["queue"]["put"] == stages["chunk unpacker"]["queue"]["taken"] == 80
    assert stages["chunk unpacker"]["load"]["threads"] == 2 and stages["tensor generator"]["load"]["threads"] == 1
    assert stages["shuffling frame sampler"]["gauges"]["capacity"] == 20
    assert 1 <= stages["shuffling frame sampler"]["gauges"]["held"]["most"] <= 20
    assert stages["chunk unpacker"]["queue"]["fill"]["latest"] == 0
    assert metrics["consumer"]["items"] == count == 5
    assert metrics["seconds"] > 0 and isinstance(metrics["bottleneck"], str)
    assert metrics["recent"]["stages"]["chunk loader"]["items"]["emitted"] == 8
    assert loader.metrics()["recent"]["stages"]["chunk loader"]["items"]["emitted"] == 0
    assert "chunk loader" in loader.metrics_text() and "shuffling chunk pool" in loader.memory()
    assert repr(loader).startswith("<DataLoader: finite")


def test_a_bad_chunk_is_named(tmp_path):
    folder = write_games(tmp_path / "games", 4)
    (folder / "bad.gz").write_bytes(b"no game")
    (folder / "cut.gz").write_bytes(gzip.compress(records(9, 2)[:-1], 1))
    told = []
    loader = DataLoader(config(folder, infinite=False, on_failure=told.append))
    assert len(rows(loader)) == 40
    assert sorted(pathlib.Path(f["origin"]).name for f in loader.failures()) == ["bad.gz", "cut.gz"]
    assert told == loader.failures() and all(f["stage"] == "map `chunk validator`" for f in told)
    assert any("bad.gz: it is not a gzip file" in f["message"] for f in told)
    validator = loader.metrics()["stages"]["chunk validator"]
    assert validator["items"]["failures"] == 2 and validator["gauges"] == {"not gzip": 1, "wrong size": 1}

    with pytest.raises(PipelineError, match=r"(bad|cut)\.gz") as error:
        list(DataLoader(config(folder, infinite=False, on_error="fail")))
    assert pathlib.Path(error.value.origin).name in ("bad.gz", "cut.gz")
    with pytest.raises(PipelineError):
        list(DataLoader(config(folder, infinite=False, failure_limit=1)))
    (tmp_path / "gone.gz").write_bytes(b"")
    loader = DataLoader(config(tmp_path / "gone.gz", infinite=False, on_error="fail"))
    (tmp_path / "gone.gz").unlink()
    with pytest.raises(PipelineError, match="gone.gz: No such file"):
        list(loader)


def test_games_that_are_not_found_are_an_error(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(RuntimeError, match="there are no games"):
        DataLoader(config(tmp_path / "empty"))
    for name in ("nowhere", "nowhere.gz", "empty/nowhere.tar", "nowhere/"):
        with pytest.raises(FileNotFoundError, match="games: .*nowhere"):
            DataLoader(config([tmp_path / "empty", tmp_path / name], infinite=False))
    with pytest.raises(FileNotFoundError, match="nowhere"):
        next(DataLoader(config(tmp_path / "nowhere", window=3)))


def test_a_damaged_archive_is_a_notice_and_its_good_members_are_read(games, tmp_path, caplog):
    with tarfile.open(tmp_path / "cut.tar", "w") as archive:
        for name in ("0.gz", "1.gz"):
            archive.add(games / name, name)
    with tarfile.open(tmp_path / "cut.tar") as archive:
        end = archive.getmember("1.gz").offset_data + 100
    os.truncate(tmp_path / "cut.tar", end)
    said = []
    loader = DataLoader(config(tmp_path / "cut.tar", infinite=False, on_notice=said.append))
    assert len(said) == 1 and "cut.tar" in said[0]
    assert len(rows(loader)) == 10
    DataLoader(config(tmp_path / "cut.tar"))
    assert "cut.tar" in caplog.text


# ---- endings


def test_close_drains(games):
    c = config(games, seed=1)
    whole = take(DataLoader(c), 100)
    loader = DataLoader(c)
    seen = [bytes_of(next(loader)) for _ in range(3)]

    def ready():
        queue = loader.metrics()["stages"]["tensor generator"]["queue"]
        return queue["put"] - queue["taken"]

    wait_for(lambda: ready() >= 2)
    loader.close()
    rest = [bytes_of(batch) for batch in loader]
    assert len(rest) >= 2 and seen + rest == whole[:len(seen + rest)]
    assert take(DataLoader(c, resume=loader.state_dict()), 1) == whole[len(seen + rest):][:1]
    with pytest.raises(StopIteration):
        loader.next()
    assert loader.metrics()["consumer"]["items"] == len(seen + rest)


def test_a_loader_cant_be_sent_to_another_process(games):
    for use in (pickle.dumps, copy.copy):
        with pytest.raises(TypeError, match="num_workers=0"):
            use(DataLoader(config(games)))


def test_leaving_with_drops_what_is_ready(games):
    with DataLoader(config(games)) as loader:
        next(loader)
    with pytest.raises(StopIteration):
        next(loader)


@pytest.mark.parametrize("end", ["stop", "close"])
def test_a_wait_for_games_can_be_ended(end, tmp_path):
    folder = tmp_path / "games"
    folder.mkdir()
    loader = DataLoader(config(folder, window=3))  # which waits for games
    with pytest.raises(TimeoutError):
        loader.next(timeout=0.01)
    ended = []

    def wait():
        ended.append(list(loader))

    thread = threading.Thread(target=wait)
    thread.start()
    wait_for(lambda: "not begun" not in repr(loader))
    getattr(loader, end)()
    thread.join(100)
    assert ended == [[]]


def run_python(code, *arguments):
    imports = "import os, signal, sys, threading\nfrom feedline.chess import *\n"
    return subprocess.run([sys.executable, "-c", imports + code, *map(str, arguments)], capture_output=True, text=True,
                          timeout=120)


def test_ctrl_c_ends_a_wait(tmp_path):
    outcome = run_python("""
loader = DataLoader(DataLoaderConfig(FilePathProvider(sys.argv[1]), shuffling_chunk_pool=ShufflingChunkPool(window=3)))
threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    next(loader)
except KeyboardInterrupt:
    print("interrupted")
""", tmp_path)
    assert outcome.stdout == "interrupted\n" and outcome.returncode == 0, outcome.stderr


def test_a_child_of_fork_is_refused_and_the_interpreter_ends_while_a_loader_runs(games):
    outcome = run_python("""
loader = DataLoader(DataLoaderConfig(FilePathProvider(sys.argv[1]), shuffling_frame_sampler=ShufflingFrameSampler(10)))
next(loader)
pid = os.fork()
if pid == 0:
    try:
        next(loader)
    except RuntimeError as error:
        os._exit(42 if "num_workers=0" in str(error) else 1)
    os._exit(2)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 42
next(loader)
import builtins
builtins.kept = loader
""", games)
    assert outcome.returncode == 0, outcome.stderr


def test_other_threads_may_look_at_the_metrics(games):
    loader = DataLoader(config(games))
    iter(loader)
    done = threading.Event()

    def look():
        while not done.is_set():
            assert "chunk loader" in loader.metrics()["stages"]

    thread = threading.Thread(target=look)
    thread.start()
    for _ in range(50):
        next(loader)
    done.set()
    thread.join()


def test_the_page_of_training_continues_where_it_was(games, tmp_path):
    page = pathlib.Path(__file__).resolve().parents[2] / "examples/python_training/chess.py"

    def train(steps, checkpoint):
        run = [sys.executable, page, games, "--steps", str(steps), "--batch", "8", "--reservoir", "20", "--checkpoint", tmp_path / checkpoint]
        return subprocess.run(run, check=True, timeout=120, capture_output=True, text=True).stdout.splitlines()

    whole = train(30, "whole")
    assert whole[-1] == "trained for 30 steps; games that can't be read: 0"
    assert train(10, "parts") == [whole[0], "trained for 10 steps; games that can't be read: 0"]
    assert train(30, "parts") == whole[1:]
