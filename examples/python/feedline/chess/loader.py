# SPDX-License-Identifier: MIT
"""The loader: a Python iterator over the batches of the pipeline."""
import logging
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, NamedTuple, Optional, Union

from numpy import ndarray

from .. import _part
from .config import DataLoaderConfig

if TYPE_CHECKING:
    from .._native.pipeline import LiveView, Recorder

_log = logging.getLogger("feedline")
native: Any = _part("chess", "libdeflate and zlib (on Debian libdeflate-dev and zlib1g-dev)")


class Batch(NamedTuple):
    """The training tuples of B positions, as float32 arrays that share the batch's memory. Win, draw and loss are
    probabilities for the player to move."""
    planes: ndarray  # [B, 112, 8, 8]: from the player's side, the first rank first
    probabilities: ndarray  # [B, 1858]; -1: an illegal move
    winner: ndarray  # [B, 3]: win, draw and loss of the game
    best_q: ndarray  # [B, 3]: win, draw and loss of the search's best move
    plies_left: ndarray  # [B]


class BatchWithValues(NamedTuple):
    """As Batch, if tensor_generator.values is True."""
    planes: ndarray
    probabilities: ndarray
    winner: ndarray
    best_q: ndarray
    plies_left: ndarray
    # [B, 6, 3]: q, d and m of the result, the best move, the played move, the network alone, the root of the search, and the
    # short term. Unknown values are NaN.
    values: ndarray


class DataLoader:
    """Iterates over the batches of a run.

        for batch in loader:            # Batch, or BatchWithValues
            step(batch.planes, batch.probabilities)

    Without infinite=True in its config each `for` is another pass, also after a break. Directly after a state was loaded it
    continues that pass, or begins the next one if the state is of the end of a pass.

    One thread at a time may use it, except for stop(), close(), metrics() and what concerns the anchor. Ctrl-C ends a wait at
    once. A child of fork() can't use it, as its threads don't exist there.

    config: the options of the stages and the run.
    resume: a state that state_dict() of such a loader returned: continues after it. None: from the beginning.

    Raises OSError and RuntimeError for games that can't be found or opened.
    """

    def __init__(self, config: DataLoaderConfig, *, resume: Optional[dict] = None) -> None:
        if not isinstance(config, DataLoaderConfig):
            raise TypeError(f"DataLoader takes a DataLoaderConfig, not {config!r}")
        self.config = config
        options = _options(config)
        run = dict(
            infinite=config.infinite, epochs=None if config.infinite else config.epochs, seed=config.seed, rank=config.rank, world_size=config.world_size,
            on_error=config.on_error, on_failure=config.on_failure, on_notice=config.on_notice,
            memory_budget=config.memory_budget, fields="tuple",
            failure_limit=native.no_failure_limit if config.failure_limit is None else config.failure_limit)
        games: Any = config.file_path_provider.games
        pool = config.shuffling_chunk_pool
        tell = config.on_notice or _log.warning
        self._pool = None
        if pool.window is None:
            self._chunks = native.ChunkSources(games)
            for problem in self._chunks.problems:
                tell(f"left out: {problem}")
            self._loader = native.Loader(self._chunks, options, resume=resume, **run)
        else:
            if resume is not None:
                raise ValueError("resume: a run with shuffling_chunk_pool.window can't be resumed: keep DataLoader.anchor and "
                                 "pass it as shuffling_chunk_pool.anchor")
            self._chunks = self._pool = native.LivePool(games[0], pool.window, tell)
            if pool.anchor is not None:
                self._pool.set_anchor(pool.anchor)
            self._loader = native.LiveLoader(self._pool, options, **run)
        self._batch: Any = BatchWithValues if config.tensor_generator.values else Batch
        self._fields = len(self._batch._fields)

    def __iter__(self) -> Iterator[Union[Batch, BatchWithValues]]:
        return map(self._named, iter(self._loader))

    def _named(self, tensors: Any) -> Union[Batch, BatchWithValues]:
        return self._batch._make(tensors[:self._fields])

    def __next__(self) -> Union[Batch, BatchWithValues]:
        return self._named(next(self._loader))

    def next(self, timeout: Optional[float] = None) -> Union[Batch, BatchWithValues]:
        """The next batch. Raises TimeoutError after `timeout` seconds, and StopIteration at the end."""
        return self._named(self._loader.next(timeout))

    def stop(self) -> None:
        """Asks the run to stop, from any thread. No more batches are delivered."""
        self._loader.stop()

    def close(self) -> None:
        """Ends the run. The iteration still yields the batches that are ready, then ends; another `for` starts the next pass.

        Any thread and signal handler may call it. If another thread waits for a batch, its wait ends.
        """
        self._loader.close(drain=True)

    def __enter__(self) -> "DataLoader":
        return self

    def __exit__(self, *_: Any) -> None:
        self._loader.close()

    def state_dict(self) -> Dict[str, Any]:
        """The position after the last batch, as a small dict that can be pickled. Raises RuntimeError with a window."""
        if self._pool is not None:
            raise RuntimeError("a run with shuffling_chunk_pool.window has no state: keep DataLoader.anchor and pass it as "
                               "shuffling_chunk_pool.anchor")
        return self._loader.state_dict()

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Continues after the batch after which state_dict() was called."""
        if self._pool is not None:
            raise RuntimeError("a run with shuffling_chunk_pool.window has no state to load")
        self._loader.load_state_dict(state)

    def live_view(self, every: float = 1.0) -> "LiveView":
        """Shows on the terminal what the run does, until the end of a `with` block."""
        return self._loader.live_view(every)

    def recorder(self, every: float = 0.1, last: float = 600.0) -> "Recorder":
        """Records the run until the end of a `with` block; report(path) of what it returns writes a page about it."""
        return self._loader.recorder(every, last)

    def metrics(self) -> Dict[str, Any]:
        """What the run did since the start of the pass, and in "recent" since the last call.

            {"seconds": 12.5, "bottleneck": "…", "consumer": {"items": 40, "waited": 0.3},
             "stages": {"chunk loader": {
                 "load": {"threads": 2, "busy": 0.7, "busy_seconds": 8.75, "mean_seconds": 0.002},
                 "items": {"received": 900, "emitted": 899, "failures": 1},
                 "queue": {"capacity": 32, "put": 899, "taken": 870, "dropped": 0,
                           "fill": {"latest": 29, "least": 0, "most": 32, "mean": 28.5}},
                 "gauges": {"unreadable": 1}}, …},
             "recent": {…}}

        `busy` is the mean number of its threads at work; neighbouring stages may share threads. `queue` is the one after a
        stage, or None if the next stage shares its threads. `gauges` are a stage's own numbers: what it holds and what the pool
        knows, as dicts like `fill`, and the causes of failures, as counts.
        """
        metrics = self._loader.metrics()
        return dict(_interval(metrics), recent=_interval(metrics["recent"]))

    def waiting_for(self) -> str:
        """What the loader waits for now, in a sentence; from any thread."""
        return self._loader.waiting_for()

    def metrics_text(self) -> str:
        """The metrics as a table for people."""
        return self._loader.metrics_text()

    def failures(self) -> List[Dict[str, Any]]:
        """The chunks that were left out, as dicts with stage, sample, epoch, origin and message."""
        return self._loader.failures()

    def memory(self) -> str:
        """What the run may hold in memory at most, as a table."""
        return self._loader.memory()

    @property
    def epoch(self) -> int:
        """The number of the epoch of the last batch's last position; before the first batch, that of the pass to come."""
        return self._loader.epoch

    @property
    def chunks(self) -> int:
        """The number of chunks, with a window those in it now."""
        return len(self._chunks)

    @property
    def anchor(self) -> str:
        """The key of the chunk after which chunks count as new; empty: the beginning of the run."""
        return self._live_pool().anchor()

    def set_anchor(self, key: str) -> None:
        """Makes the chunk with this key the anchor."""
        self._live_pool().set_anchor(key)

    def reset_anchor(self) -> str:
        """Makes the newest chunk the anchor, as after a network has been trained, and returns its key."""
        return self._live_pool().reset_anchor()

    @property
    def chunks_since_anchor(self) -> int:
        """The number of chunks that are newer than the anchor."""
        return self._live_pool().chunks_since_anchor()

    def _live_pool(self):
        if self._pool is None:
            raise RuntimeError("an anchor needs shuffling_chunk_pool.window: only a live pool counts new chunks")
        return self._pool

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._loader.__reduce_ex__(protocol)  # says why it can't be pickled or copied

    def __repr__(self) -> str:
        return repr(self._loader).replace("<Live", "<").replace("<Loader", "<DataLoader")


def _options(config):
    """The options of the pipeline in C++."""
    unpacker, sampler = config.chunk_unpacker, config.shuffling_frame_sampler
    options = native.Options()
    options.format = config.chunk_source_loader.format
    options.workers = unpacker.workers
    options.sampling = unpacker.sampling
    options.sampling_seed = config.seed if unpacker.sampling_seed is None else unpacker.sampling_seed
    if unpacker.blunders is not None:
        options.correct_blunders(unpacker.blunders)
    options.reservoir = sampler.reservoir
    options.min_fill = sampler.min_fill
    options.batch = config.tensor_generator.batch
    options.values = config.tensor_generator.values
    return options


def _label(name):
    """The stage's name in the picture of the pipeline: "map `chunk loader`" is the chunk loader."""
    if "`" in name:
        return name.split("`")[1]
    return {"shuffle": "shuffling frame sampler", "sliding_window_pool": "shuffling chunk pool"}.get(name, name)


def _interval(metrics):
    seconds, stages, segments = metrics["seconds"], metrics["stages"], metrics["segments"]
    all_stages = {}
    for stage, following in zip(stages, stages[1:] + [None]):
        gauges = dict(stage["user_metrics"], **stage["gauges"])
        if stage["capacity"]:
            gauges.update(held=stage["held"], capacity=stage["capacity"])
        segment = stage["segment"]
        queue = None
        if following is None or following["segment"] != segment:
            queue = {key: value for key, value in metrics["queues"][segment].items() if key != "name"}
        all_stages[_label(stage["name"])] = {
            "load": {
                "threads": segments[segment]["active"],
                "busy": stage["busy"] / seconds if seconds > 0 else 0.0,
                "busy_seconds": stage["busy"],
                "mean_seconds": stage["mean_seconds"],
            },
            "items": {key: stage[key] for key in ("received", "emitted", "failures")},
            "queue": queue,
            "gauges": gauges,
        }
    return {
        "seconds": seconds,
        "stages": all_stages,
        "consumer": metrics["consumer"],
        "bottleneck": metrics["bottleneck"],
    }
