# SPDX-License-Identifier: MIT
"""The options of each stage. They can't be changed: dataclasses.replace() makes other ones.

A wrong value raises ValueError, a value of a wrong type TypeError, with a sentence that names the field.
"""
import math
import numbers
import os
from dataclasses import dataclass, field
from typing import Any, Callable, Optional, Sequence, Union

_MOST_WORKERS = 256  # feedline::workers::limit


def _number(of: Any, name: str, least: float, most: float, optional: bool = False, kind: type = int) -> None:
    value: Any = getattr(of, name)
    if optional and value is None:
        return
    where = f"{_snake_case(type(of).__name__)}.{name}"
    accepted: Any = numbers.Real if kind is float else numbers.Integral  # NumPy's are such numbers too
    if isinstance(value, bool) or not isinstance(value, accepted):
        raise TypeError(f"{where} must be a number{' or None' if optional else ''}, not {value!r}")
    number: Any = value
    if math.isnan(number) or not least <= number <= most:
        raise ValueError(f"{where} must be from {least} to {most}, not {value}")


def _choice(of, name, choices):
    value = getattr(of, name)
    if value not in choices:
        raise ValueError(f"{_snake_case(type(of).__name__)}.{name} must be one of {', '.join(map(repr, choices))}, "
                         f"not {value!r}")


def _flag(of, name):
    if not isinstance(getattr(of, name), bool):
        raise TypeError(f"{_snake_case(type(of).__name__)}.{name} must be True or False, not {getattr(of, name)!r}")


def _snake_case(name):
    return "".join("_" + c.lower() if c.isupper() and i else c.lower() for i, c in enumerate(name))


@dataclass(frozen=True)
class FilePathProvider:
    """Finds the files with games.

    games: files with games (.gz, or plain records), TAR archives of them, and folders of .gz and .tar files at any depth;
        one name or several. A folder's files are sorted by name, other names keep their order.
    """
    games: Union[str, os.PathLike, Sequence[Union[str, os.PathLike]]]

    def __post_init__(self):
        games = (self.games,) if isinstance(self.games, (str, os.PathLike)) else self.games
        try:
            games = tuple(os.fspath(name) for name in games)
        except TypeError:
            games = (None,)
        if not all(isinstance(name, str) for name in games):
            raise TypeError("file_path_provider.games must be names of files and folders, as texts or paths, "
                            f"not {self.games!r}")
        if not games or "" in games:
            raise ValueError("file_path_provider.games must name at least one file or folder, and no name may be empty")
        object.__setattr__(self, "games", games)


@dataclass(frozen=True)
class ChunkSourceLoader:
    """Reads chunks: each is a game.

    format: the version of the records that is accepted: "any" (each chunk's own, 4 to 7), "v6" or "v7".
    """
    format: str = "any"

    def __post_init__(self):
        _choice(self, "format", ("any", "v6", "v7"))


@dataclass(frozen=True)
class ShufflingChunkPool:
    """Puts the chunks into a random order. Without a window all chunks are known at the start, and each pass has its own
    order.

    window: the newest chunks of one folder in which games arrive during the run; each new one replaces the oldest.
    anchor: with a window, the key of a chunk: a file, or ARCHIVE/MEMBER. Chunks newer than this one count as new; None: all
        that arrive count. DataLoader.anchor is the key to keep for the next run.
    """
    window: Optional[int] = None
    anchor: Optional[str] = None

    def __post_init__(self):
        _number(self, "window", 1, 1_000_000_000, optional=True)
        if self.anchor is None:
            return
        if not isinstance(self.anchor, str):
            raise TypeError(f"shuffling_chunk_pool.anchor must be the key of a chunk or None, not {self.anchor!r}")
        if self.window is None:
            raise ValueError("shuffling_chunk_pool.anchor needs shuffling_chunk_pool.window: only a live pool counts new "
                             "chunks")


@dataclass(frozen=True)
class ChunkUnpacker:
    """Unpacks chunks into positions, in parallel.

    workers: threads that read and unpack chunks; the tensor generator has half as many.
    sampling: the share of a game's positions that each pass uses, 0 to 1.
    sampling_seed: keys which positions these are; None: the seed of the run.
    blunders: a move that lost more than this of the expected result (-1 to 1) is a blunder, and the results before it are
        replaced by what the search expected; None: games are not changed.
    """
    workers: int = 2
    sampling: float = 1.0
    sampling_seed: Optional[int] = None
    blunders: Optional[float] = None

    def __post_init__(self):
        _number(self, "workers", 1, _MOST_WORKERS)
        _number(self, "sampling", 0, 1, kind=float)
        _number(self, "sampling_seed", 0, 2**64 - 1, optional=True)
        _number(self, "blunders", 0, 2, optional=True, kind=float)


@dataclass(frozen=True)
class ShufflingFrameSampler:
    """Holds positions and emits a random one.

    reservoir: the positions that it holds.
    min_fill: positions in it before it emits the first one; None: as many as it holds.
    """
    reservoir: int = 100_000
    min_fill: Optional[int] = None

    def __post_init__(self):
        _number(self, "reservoir", 1, 100_000_000)
        _number(self, "min_fill", 0, 100_000_000, optional=True)
        if self.min_fill is not None and self.min_fill > self.reservoir:
            raise ValueError(f"shuffling_frame_sampler.min_fill is {self.min_fill}, above "
                             f"shuffling_frame_sampler.reservoir, {self.reservoir}: it can be at most as large")


@dataclass(frozen=True)
class TensorGenerator:
    """Makes the tensors of a batch.

    batch: positions.
    values: also make the tensor `values`.
    """
    batch: int = 1024
    values: bool = False

    def __post_init__(self):
        _number(self, "batch", 1, 1_000_000)
        _flag(self, "values")


@dataclass(frozen=True)
class DataLoaderConfig:
    """The stages in their order, then the options of the run.

    seed: keys every random decision. The same seed and files give the same batches with any number of workers; with a window
        only while no game arrives.
    infinite: repeat the games for ever. If False, each `for` uses each position once, `epochs` times.
    on_error: "skip" leaves bad chunks out, "fail" raises PipelineError at the first one.
    failure_limit: with "skip", one more bad chunk ends the run; None: any number.
    on_failure: receives a dict for each chunk that is left out: stage, sample, epoch, origin and message.
    on_notice: receives a sentence about something unusual, such as a damaged archive, from any thread; None: it goes to the
        logger `feedline`.
    memory_budget: the most bytes that the run may hold; 0: no limit.
    rank, world_size: this process and how many train together; None: what the launcher's environment says.
        More than one process needs infinite=True or a window: games have different lengths, so some would wait for others.
    """
    file_path_provider: FilePathProvider
    chunk_source_loader: ChunkSourceLoader = field(default_factory=ChunkSourceLoader)
    shuffling_chunk_pool: ShufflingChunkPool = field(default_factory=ShufflingChunkPool)
    chunk_unpacker: ChunkUnpacker = field(default_factory=ChunkUnpacker)
    shuffling_frame_sampler: ShufflingFrameSampler = field(default_factory=ShufflingFrameSampler)
    tensor_generator: TensorGenerator = field(default_factory=TensorGenerator)
    seed: int = 0
    infinite: bool = True
    epochs: int = 1
    on_error: str = "skip"
    failure_limit: Optional[int] = None
    on_failure: Optional[Callable[[dict], Any]] = None
    on_notice: Optional[Callable[[str], Any]] = None
    memory_budget: int = 0
    rank: Optional[int] = None
    world_size: Optional[int] = None

    def __post_init__(self):
        for kind in (FilePathProvider, ChunkSourceLoader, ShufflingChunkPool, ChunkUnpacker, ShufflingFrameSampler,
                     TensorGenerator):
            name = _snake_case(kind.__name__)
            if not isinstance(getattr(self, name), kind):
                raise TypeError(f"data_loader_config.{name} must be a {kind.__name__}, not {getattr(self, name)!r}")
        _number(self, "seed", 0, 2**64 - 1)
        _flag(self, "infinite")
        _number(self, "epochs", 1, 2**32 - 1)
        if self.infinite and self.epochs != 1:
            raise ValueError(f"data_loader_config.epochs is {self.epochs}, but data_loader_config.infinite is True: only a "
                             "finite run has a number of epochs")
        _choice(self, "on_error", ("skip", "fail"))
        _number(self, "failure_limit", 0, 2**64 - 1, optional=True)
        for name in ("on_failure", "on_notice"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise TypeError(f"data_loader_config.{name} must be a function or None, not {getattr(self, name)!r}")
        _number(self, "memory_budget", 0, 2**63 - 1)
        _number(self, "rank", 0, 2**32 - 1, optional=True)
        _number(self, "world_size", 1, 2**32 - 1, optional=True)
        if (self.rank is None) != (self.world_size is None):
            raise ValueError("data_loader_config.rank and data_loader_config.world_size belong together")
        if self.rank is not None and self.world_size is not None and self.rank >= self.world_size:
            raise ValueError(f"data_loader_config.rank is {self.rank}, but must be below data_loader_config.world_size, "
                             f"{self.world_size}")
        folders: Any = self.file_path_provider.games
        if self.shuffling_chunk_pool.window is not None and len(folders) != 1:
            raise ValueError(f"shuffling_chunk_pool.window needs file_path_provider.games with one folder, not {len(folders)} names")
