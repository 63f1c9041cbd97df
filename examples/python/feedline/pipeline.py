# SPDX-License-Identifier: MIT
"""Pipelines of Python functions.

    train = (feedline.files("photos/*/*.jpg")
             .shuffle(10_000)
             .map(load, workers=8)      # any function load(item) or load(item, context)
             .batch(64))                # dicts, tuples, dataclasses of arrays, numbers and texts
    for batch in train.infinite(seed=7):
        step(batch)

Each stage has threads of its own, joined by bounded queues. A function holds Python's lock only while it runs: NumPy, Pillow and PyTorch
release it while they work, so that several workers decode at once. A run yields the same items with any number of workers, and its
state_dict() continues it behind the last one.
"""
import atexit
import builtins
import collections
import copy
import errno
import functools
import glob
import inspect
import io
import operator
import os
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Sized, Union

import numpy

from . import _native
from ._collate import collate as _collate
from ._native import PipelineError
from ._native.pipeline import Context, LiveView, Loader, NativeFunction, Recorder

__all__ = ["Context", "LiveView", "Loader", "NativeFunction", "Pipeline", "PipelineError", "Recorder", "arrow", "concat", "dataset", "files",
           "iterate", "lines", "mix", "records", "tar", "zip"]

if TYPE_CHECKING:
    import asyncio
    import concurrent.futures

Names = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]]]
Function = Callable[..., Any]


class Pipeline:
    """A source and stages. It only describes the work: finite() and infinite() run it. Each function returns a longer pipeline, and
    leaves this one as it is."""

    def __init__(self, composed: Any, source: Any = None, maps: "Sequence[Union[_Map, _PartMap]]" = (), own_maps: int = 0) -> None:
        self._composed = composed
        self._source = source  # if only maps follow it
        self._maps = tuple(maps)
        self._own_maps = own_maps  # of these, the first that belong to the source

    def map(self, function: Function, *, workers: Optional[int] = None, ordered: bool = True, name: Optional[str] = None,
            concurrency: Optional[int] = None, timeout: Optional[float] = None,
            executor: "Optional[concurrent.futures.Executor]" = None, max_item_bytes: Optional[int] = None) -> "Pipeline":
        """Yields what the function returns for each item: function(item), or function(item, context) with a Context.

        workers: threads that call it (1). They share the function, so it must not depend on earlier calls
        ordered: if False, items leave in the order in which they are finished, and a run has no state
        name: of the stage in messages, metrics and states, by default that of the function
        concurrency: of an `async def` function, how many of its calls run at once (32), in an event loop in the background;
            timeout: the seconds after which a call is cancelled and fails
        executor: calls function(item) by executor.submit(), such as that of a ProcessPoolExecutor, with as many calls at once as it has
            workers
        max_item_bytes: for a memory_budget, the most bytes of a result with all that it holds; a larger one fails.
            It is measured under Python's lock: a small dict takes 2 us, each number in a list 0.2 us. A view counts its whole array,
            unless something else refers to that, such as a variable of a generator: yield a copy. Tensors count their elements; what
            several items share counts for each

        An exception is a failure of its sample: PipelineError, or what on_error="skip" leaves out. So is None as a result."""
        call, threads, takes_context = _callable(function, workers, concurrency, timeout, executor)
        return self._mapped(_Map(call, threads, takes_context, ordered, _name(function, name), _bytes("max_item_bytes", max_item_bytes)))

    def filter(self, function: Function, *, workers: int = 1, ordered: bool = True, name: Optional[str] = None) -> "Pipeline":
        """Yields the items for which the function returns something true. Options as map()'s."""
        return Pipeline(self._composed.filter(function, _takes_context(function, "filter"), workers, ordered, _name(function, name)))

    def flat_map(self, function: Function, *, workers: int = 1, ordered: bool = True, name: Optional[str] = None,
                 max_item_bytes: Optional[int] = None) -> "Pipeline":
        """Yields each of the items that the function returns for one: a list, say, or a generator. Options as map()'s; one larger than
        max_item_bytes ends those of its input, as any failure does. A memory_budget doesn't count a whole list, only the items: yield them."""
        return Pipeline(self._composed.flat_map(function, _takes_context(function, "flat_map"), workers, ordered, _name(function, name),
                                                _bytes("max_item_bytes", max_item_bytes)))

    def shuffle(self, buffer_size: int, *, min_size: int = 1) -> "Pipeline":
        """Yields a random one of up to `buffer_size` items that it holds, the first when it has `min_size` of them."""
        return Pipeline(self._composed.shuffle(buffer_size, min_size))

    def global_shuffle(self) -> "Pipeline":
        """Yields all samples of the source in a random order, another one in each epoch, without a buffer. It must follow the source,
        which must be able to read its samples by position: files, tar, lines, records, arrow and dataset are, and concat and zip of
        such sources."""
        return self._with_source(self._positions("global_shuffle()").global_shuffle())

    def sampled(self, sampler: Union[Iterable[int], Callable[[], Iterable[int]]], *, workers: int = 1,
                max_item_bytes: Optional[int] = None) -> "Pipeline":
        """Yields the samples of the source at the positions that a sampler, such as one of torch.utils.data, yields: an iterable of
        positions (negative ones count from the end), as iterate() takes it, read by so many threads. It must follow the source, as
        global_shuffle(). max_item_bytes as map()'s."""
        source = self._positions("sampled()")
        if any(isinstance(m, _PartMap) and not m.zipped for m in self._maps):
            raise ValueError("sampled() can't follow a concat() whose sources have functions: map() the samples after it")
        positions = _iterated(sampler, 1000, checks_limit=False)._composed
        reader = source.reader()
        return self._with_source(positions.map(reader, False, workers, True, "sampled", _bytes("max_item_bytes", max_item_bytes)), is_source=False)

    def __getitem__(self, position: int) -> Any:
        """The sample of the source at a position, negative ones from the end, with the source's fields. Only of a source without stages,
        which must be able to read its samples by position, as for global_shuffle(): so it is a map-style dataset, too."""
        item, part = self._positions("indexing", TypeError).item_at(operator.index(position))
        for m in self._maps:
            item = m.called_once(item, part)
        return item

    def __len__(self) -> int:
        """The number of samples of a source, as for indexing. Counts them by reading headers or metadata, or the whole of text files."""
        return int(self._positions("len()", TypeError).size())

    def _positions(self, what: str, error: "type[Exception]" = ValueError) -> Any:
        if self._source is None or len(self._maps) != self._own_maps or not self._source.has_positions():
            raise error(f"{what} must follow a source that can be read by position directly: files, tar, lines, records, arrow, "
                        "dataset, or concat and zip of such sources")
        return self._source

    def _mapped(self, m: "Union[_Map, _PartMap]") -> "Pipeline":
        return Pipeline(m.appended(self._composed), self._source, (*self._maps, m), self._own_maps)

    def _with_own(self, maps: "Sequence[Union[_Map, _PartMap]]") -> "Pipeline":
        made = self
        for m in maps:
            made = made._mapped(m)
        made._own_maps = len(made._maps)
        return made

    def _with_source(self, source: Any, is_source: bool = True) -> "Pipeline":
        return Pipeline(source, source if is_source else None)._with_own(self._maps)

    def take(self, count: int) -> "Pipeline":
        """Yields the first items of each epoch, and then ends it."""
        return Pipeline(self._composed.take(count))

    def prefetch(self, items: int) -> "Pipeline":
        """Holds so many items ready behind the last stage."""
        return Pipeline(self._composed.prefetch(items))

    def batch(self, batch_size: int, *, drop_last: bool = False, collate: Callable[[List[Any]], Any] = _collate,
              max_item_bytes: Optional[int] = None) -> "Pipeline":
        """Yields what `collate` makes of the list of `batch_size` items: by default arrays, numbers and PyTorch's tensors are stacked,
        texts become lists, and dicts, tuples and dataclasses such of these. The last batch of a finite pass may be smaller, or is left
        out with drop_last.

        max_item_bytes: for a memory_budget, the most bytes of what another `collate` returns; the default's batches take what their items
            take, unless NumPy widens their types"""
        _refuse_async(collate, "batch")
        return Pipeline(self._composed.batch(batch_size, drop_last, collate, collate is _collate,
                                             _bytes("max_item_bytes", max_item_bytes)))

    def bucket_batch(self, boundaries: Sequence[int], *, length: Callable[[Any], int] = len, batch_size: int = 0, max_tokens: int = 0,
                     drop_last: bool = False, collate: Callable[[List[Any]], Any] = _collate,
                     max_item_bytes: Optional[int] = None) -> "Pipeline":
        """Yields batches of items of similar length. An item goes into the first bucket whose boundary is at least its length; a bucket
        becomes a batch when it holds `batch_size` items, or when the next would make the longest length times their number exceed
        `max_tokens`. Options as batch()'s."""
        _refuse_async(collate, "bucket_batch")
        _refuse_async(length, "bucket_batch")
        return Pipeline(self._composed.bucket_batch(length, list(boundaries), batch_size, max_tokens, drop_last, collate,
                                                    collate is _collate, _bytes("max_item_bytes", max_item_bytes)))

    def windows(self, length: int, *, stride: Optional[int] = None, separator: Optional[int] = None, drop_last: bool = True,
                max_item_bytes: Optional[int] = None) -> "Pipeline":
        """Joins sequences of tokens to one stream and yields windows of it: int64 arrays [length]. The items are whole numbers, or
        sequences of them. A state has the tokens that don't fill a window yet.

        stride: from the beginning of a window to that of the next, by default length
        separator: a token to add after each sequence
        drop_last: leave out the tokens at the end of a finite pass that don't fill a window; else they are a shorter one
        max_item_bytes: for a memory_budget, the most bytes of the tokens of an item, of 8 bytes each; more fail"""
        return Pipeline(self._composed.windows(length, stride, separator, drop_last, _bytes("max_item_bytes", max_item_bytes)))

    def finite(self, **options: Any) -> Loader:
        """An iterator over one pass with each item once: each `for` begins the next. Options as feedline.pipeline.Loader."""
        return Loader(self._composed, infinite=False, **options)

    def infinite(self, **options: Any) -> Loader:
        """An iterator that repeats the data for ever, each epoch in its own order. Options as feedline.pipeline.Loader."""
        return Loader(self._composed, infinite=True, **options)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Any:
        raise TypeError("a pipeline only describes the work: iterate over what its finite() or infinite() returns")


class _Map(NamedTuple):
    """A stage map()."""
    call: Any
    workers: int
    takes_context: bool
    ordered: bool
    name: str
    max_item_bytes: Optional[int] = None

    def appended(self, composed: Any) -> Any:
        return composed.map(self.call, self.takes_context, self.workers, self.ordered, self.name, self.max_item_bytes)

    def called_once(self, item: Any, part: int) -> Any:
        return self.call(item)


class _PartMap(NamedTuple):
    """What follows the parts of concat(), mix() or zip(), as one stage downstream of them: for each sample it calls the functions of its
    part."""
    parts: "Sequence[Sequence[Any]]"
    zipped: bool

    def appended(self, composed: Any) -> Any:
        maps = [m for part in self.parts for m in part]
        names = dict.fromkeys(" + ".join(m.name for m in part) for part in self.parts if part)
        workers = sum(max((m.workers for m in part), default=0) for part in self.parts)
        return composed.map_parts([[(m.call, m.takes_context, m.max_item_bytes) for m in part] for part in self.parts], self.zipped,
                                  min(workers, 256), all(m.ordered for m in maps), (" and " if self.zipped else " or ").join(names))

    def called_once(self, item: Any, part: int) -> Any:
        if self.zipped:
            return tuple(_called(i, maps) for i, maps in builtins.zip(item, self.parts))
        return _called(item, self.parts[part])


def _called(item: Any, maps: Sequence[Any]) -> Any:
    for m in maps:
        item = m.call(item)
    return item


def _of_source(source: Any, *maps: _Map) -> Pipeline:
    """A source, with functions that belong to it."""
    return Pipeline(source, source)._with_own(maps)


def files(names: Names, *, recursive: bool = False) -> Pipeline:
    """The paths of the files that match patterns such as "photos/*/*.jpg", sorted; `**` is any number of folders.

    recursive: files in folders inside those of the patterns, too"""
    patterns = [_pattern(os.fsdecode(name), recursive) for name in _listed(names)]
    if not patterns:
        raise ValueError("name at least one file or pattern")
    folders = [_folder_without_wildcards(pattern) for pattern in patterns]
    folder = os.path.commonpath(folders) if len({os.path.isabs(f) for f in folders}) == 1 else os.getcwd()
    folder = folder or os.curdir
    encoded: Any = os.fsencode(folder)
    return _of_source(_native.pipeline.files(encoded, [os.path.relpath(pattern, folder) for pattern in patterns]))


def lines(names: Names, *, shuffle: bool = True, max_line_bytes: Optional[int] = None) -> Pipeline:
    """The lines of text files, as str without their ends. With `shuffle` each epoch has an order of files of its own.

    max_line_bytes: the longest line, for a memory_budget; a longer one fails"""
    return _of_source(_native.pipeline.lines(names, shuffle, _bytes("max_line_bytes", max_line_bytes)))


def records(names: Names, size: int) -> Pipeline:
    """The records of files, as bytes of one size."""
    return _of_source(_native.pipeline.records(names, size))


def tar(names: Names, *, fields: Optional[Mapping[str, Any]] = None, workers: int = 1, shuffle: bool = True,
        keep_index: bool = False, max_item_bytes: Optional[int] = None) -> Pipeline:
    """The samples of TAR shards, as dicts of bytes: {"__key__": "dir/17", "jpg": b"…", "cls": b"3"} for dir/17.jpg and dir/17.cls.

    fields: only these members, as such types: {"jpg": "image", "cls": int, "json": dict, "txt": str, "npy": numpy.ndarray,
        "bin": bytes}; also any function of the bytes, or feedline.images.decode(…), which "image" stands for, and
        feedline.audio.decode(…). Of several names, "jpg;png", the first that there is. A sample without a field fails
    workers: threads that make the fields
    shuffle: each epoch has an order of shards of its own
    keep_index: len() and global_shuffle() keep the positions of samples in a file beside each shard
    max_item_bytes: of a sample, or its fields, as of map(): for a memory_budget where filter() or batch() follows, or fields are read"""
    samples = _native.pipeline.tar(names, shuffle, keep_index)
    most = _bytes("max_item_bytes", max_item_bytes)
    if fields is None:
        return _of_source(samples, *_measured(most))
    if not isinstance(fields, Mapping):
        raise TypeError(f"fields must be a dict of names and types, not {fields!r}")
    kinds = {name: _images().decode(image=name) if kind == "image" else kind for name, kind in fields.items()}
    for kind in kinds.values():
        if callable(kind) and not isinstance(kind, (type, NativeFunction)):
            _refuse_async(kind, "fields")
    natives = {name: kind.of_member(name) for name, kind in kinds.items() if isinstance(kind, NativeFunction)}
    readers = {name: (lambda value: value) if name in natives else _reader(kind) for name, kind in kinds.items()}

    def read(sample: Dict[str, Any]) -> Dict[str, Any]:
        made = {"__key__": sample["__key__"]}
        for names, reader in readers.items():
            name = next((name for name in names.split(";") if name in sample), None)
            if name is None:
                raise KeyError(f"the sample has no member {names!r}, only {', '.join(sorted(sample))}")
            try:
                made[names] = reader(sample[name])
            except Exception as error:
                raise ValueError(f"member {name!r}: {error}") from error
        return made

    decoders = [_Map(native, workers, False, True, f"{native.name} {name}", most) for name, native in natives.items()]
    return _of_source(samples, *_measured(most), *decoders, _Map(read, workers, False, True, "fields", most))


def arrow(names: Names, columns: Union[str, Sequence[str]] = (), *, shuffle: bool = True, max_row_bytes: int = 1 << 28,
          max_item_bytes: Optional[int] = None) -> Pipeline:
    """The rows of Arrow files and streams as dicts of numbers, texts, bytes, lists, arrays of numbers and dicts; of dates and times as NumPy
    has them. A folder stands for the files data-*.arrow in it, or else *.arrow, as Hugging Face's save_to_disk() writes them.

    columns: only these, in this order; a dot leads into a struct: "image.bytes"
    shuffle: each epoch has an order of files of its own
    max_row_bytes: a row whose lists take more, once they are copied, fails
    max_item_bytes: of a row, as of map(): for a memory_budget where filter() or batch() follows

    The files of images and sounds in them are decoded by .map(feedline.images.decode(…)) and .map(feedline.audio.decode(…)), also those of
    which a row has only a path, in a struct {bytes, path}, or as a text if decode is the first function: a relative one begins in the folder
    of the Arrow file. Such paths aren't limited to a folder, so rows decide which files are read."""
    from . import _part
    return _of_source(_part("arrow", "FlatBuffers (on Debian libflatbuffers-dev)").rows(
        names, list(_listed(columns)), shuffle, max_row_bytes), *_measured(_bytes("max_item_bytes", max_item_bytes)))


def dataset(data: Any, *, shuffle: bool = False, workers: int = 1, max_item_bytes: Optional[int] = None) -> Pipeline:
    """The elements data[0], data[1], … data[len(data) - 1], such as those of a torch.utils.data.Dataset, read by so many threads; with
    `shuffle` in a random order, another one in each epoch. max_item_bytes as map()'s."""
    elements = _of_source(_native.pipeline.range(len(data)),
                          _Map(lambda index: data[index], workers, False, True, type(data).__name__,
                               _bytes("max_item_bytes", max_item_bytes)))
    return elements.global_shuffle() if shuffle else elements


def iterate(data: Union[Iterable[Any], Callable[[], Iterable[Any]]], *, max_item_bytes: Optional[int] = None) -> Pipeline:
    """The items of an iterable, or of what a function returns, such as a generator. Each epoch iterates over it once more; before, its
    set_epoch(epoch) is called if it has one. max_item_bytes as map()'s.

    If it has state_dict() and load_state_dict(), they save and restore the position of an iteration, by pickle; each epoch then iterates
    over a copy.copy() of it, so that loaders don't disturb each other. Else a resumed run goes through what came before. With several
    ranks each of them iterates over everything, and keeps its share.

    Python's garbage collector doesn't see an iteration that a loader has begun: if it refers to an object that has the loader, as a
    generator method does, close() the loader."""
    return _iterated(data, _bytes("max_item_bytes", max_item_bytes))


def _iterated(data: Union[Iterable[Any], Callable[[], Iterable[Any]]], most: Optional[int], checks_limit: bool = True) -> Pipeline:
    if hasattr(data, "__next__"):
        raise TypeError("an iterator can be read only once: pass an iterable, or a function that returns one, such as the generator function itself")
    has_state = hasattr(data, "state_dict") and hasattr(data, "load_state_dict")

    def begin(epoch: int) -> Any:
        source: Any = copy.copy(data) if has_state else data
        if hasattr(source, "set_epoch"):
            source.set_epoch(epoch)
        if has_state:
            return _WithState(source)
        items: Any = source if isinstance(source, Iterable) or not callable(source) else source()
        return iter(items)

    try:
        size = len(data) if isinstance(data, Sized) else None  # type: ignore[arg-type]
    except TypeError:  # of a PyTorch DataLoader without a length
        size = None
    return _of_source(_native.pipeline.iterate(begin, has_state, size, most, checks_limit))


def concat(*pipelines: Pipeline) -> Pipeline:
    """The samples of several sources, one source after another. Each may be followed by map(), whose workers all sources share;
    other stages follow concat()."""
    return _combined("concat", pipelines, _native.pipeline.concat)


def zip(*pipelines: Pipeline) -> Pipeline:
    """Tuples of one sample of each source, until one of them ends; the sources as for concat(). With `shuffle` they have equal
    orders of equal files."""
    return _combined("zip", pipelines, _native.pipeline.zip)


def mix(*pipelines: "tuple[Pipeline, float]", when_one_ends: Optional[str] = None) -> Pipeline:
    """Samples of several sources, each chosen at random with its weight: mix((web, 0.7), (books, 0.3)). The sources as for concat().

    when_one_ends: "repeat" it until each has ended once (which an infinite run does), "continue" with the others (as a finite run,
        which has each sample once), or "stop" the epoch"""
    for part in pipelines:
        if not isinstance(part, tuple) or len(part) != 2:
            raise TypeError(f"mix() takes pairs of a pipeline and its weight, not {part!r}")
    weights = [float(weight) for _, weight in pipelines]
    return _combined("mix", [p for p, _ in pipelines], lambda sources: _native.pipeline.mix(sources, weights, when_one_ends))


def _combined(kind: str, pipelines: Sequence[Pipeline], combine: Callable[[List[Any]], Any]) -> Pipeline:
    """A source of several."""
    for number, pipeline in enumerate(pipelines):
        if not isinstance(pipeline, Pipeline):
            raise TypeError(f"{kind}() takes pipelines, not {pipeline!r}")
        if pipeline._source is None:
            raise ValueError(f"{kind}() takes sources that only map() follows, but number {number} has other stages: let them follow {kind}()")
        if any(isinstance(m, _PartMap) for m in pipeline._maps):
            raise ValueError(f"{kind}() takes sources, but number {number} is a concat(), zip() or mix()")
    source = combine([pipeline._source for pipeline in pipelines])
    combined = Pipeline(source, source)
    if not any(pipeline._maps for pipeline in pipelines):
        return combined
    parts = _PartMap([pipeline._maps for pipeline in pipelines], kind == "zip")
    if all(len(pipeline._maps) == pipeline._own_maps for pipeline in pipelines):
        return combined._with_own([parts])
    return combined._mapped(parts)


class _WithState:
    """An iteration whose state the iterable knows."""

    def __init__(self, owner: Any) -> None:
        self._owner = owner
        self._iterator = iter(owner)

    def __iter__(self) -> "_WithState":
        return self

    def __next__(self) -> Any:
        return next(self._iterator)

    def state_dict(self) -> Any:
        return self._owner.state_dict()

    def load_state_dict(self, state: Any) -> None:
        self._owner.load_state_dict(state)
        self._iterator = iter(self._owner)


def _images() -> Any:
    from . import images
    return images


def _reader(kind: Any) -> Callable[[bytes], Any]:
    import json
    if not callable(kind):
        raise TypeError(f"fields: {kind!r} isn't \"image\", a type or a function of bytes")
    known: Dict[Any, Callable[[bytes], Any]] = {
        bytes: bytes, str: lambda data: data.decode(), dict: json.loads, list: json.loads,
        numpy.ndarray: lambda data: numpy.load(io.BytesIO(data), allow_pickle=False)}
    known[numpy.array] = known[numpy.ndarray]
    return known.get(kind, kind)


def _measured(most: Optional[int]) -> "List[_Map]":
    """What follows a source whose samples have at most so many bytes as Python's objects."""
    return [] if most is None else [_Map(_native.pipeline.measure(), 1, False, True, "measure", most)]


def _bytes(name: str, value: Any) -> Optional[int]:
    if value is None:
        return None
    try:
        count = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is a whole number of bytes, not {value!r}") from None
    if not 1 <= count <= 1 << 50:
        raise ValueError(f"{name} must be from 1 to 2**50, not {count}")
    return count


def _listed(names: Names) -> Sequence[Any]:
    return [names] if isinstance(names, (str, bytes, os.PathLike)) else list(names)


def _pattern(name: str, recursive: bool) -> str:
    """A pattern for a name that may be one. Raises FileNotFoundError for a single file that doesn't exist."""
    if os.path.isfile(name):
        name = glob.escape(name)
    elif not any(c in name for c in "*?["):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT) if not os.path.isdir(name) else "a folder: name files in it", name)
    return os.path.join(_folder_without_wildcards(name), "**", os.path.basename(name)) if recursive else name


def _folder_without_wildcards(pattern: str) -> str:
    folder = os.path.dirname(pattern)
    while any(c in folder for c in "*?["):
        folder = os.path.dirname(folder)
    return folder


def _name(function: Function, name: Optional[str]) -> str:
    if name is None and isinstance(function, NativeFunction):
        return str(function.name)
    function = _unwrapped(function)
    return name if name is not None else str(getattr(function, "__name__", type(function).__name__))


def _unwrapped(function: Function) -> Function:
    """What functools.partial() was given."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _is_async(function: Function) -> bool:
    return _is(function, inspect.iscoroutinefunction) or _is(function, inspect.isasyncgenfunction)


def _is(function: Function, test: Callable[[Any], bool]) -> bool:
    function = _unwrapped(function)
    return test(function) or test(getattr(function, "__call__", None))


def _refuse_async(function: Function, stage: str) -> None:
    if not callable(function):
        raise TypeError(f"a stage needs a function, not {function!r}")
    if _is_async(function):
        raise TypeError(f"{_name(function, None)} is async, which only map() can call, not {stage}()")


def _takes_context(function: Function, stage: str = "map") -> bool:
    """Whether it is function(item, context). Raises TypeError if it is neither that nor function(item)."""
    if stage != "map":
        _refuse_async(function, stage)
    elif not callable(function):
        raise TypeError(f"a stage needs a function, not {function!r}")
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # of some builtins nothing is known
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [p for p in parameters if p.kind in kinds and p.default is p.empty]
    needs_names = [p.name for p in parameters if p.kind == p.KEYWORD_ONLY and p.default is p.empty]
    takes_some = any(p.kind in kinds or p.kind == p.VAR_POSITIONAL for p in parameters)
    if len(required) > 2 or needs_names or not takes_some:
        raise TypeError(f"{_name(function, None)}{inspect.signature(function)} can't be called with an item, or an item and a context")
    return len(required) == 2


def _callable(function: Function, workers: Optional[int], concurrency: Optional[int], timeout: Optional[float],
              executor: "Optional[concurrent.futures.Executor]") -> Any:
    """What a stage calls, by how many workers, and whether with a context, which a Deferred has itself."""
    if isinstance(function, NativeFunction):
        if concurrency is not None or timeout is not None or executor is not None:
            raise ValueError(f"{function.name} runs without Python's lock: concurrency, timeout and executor aren't for it")
        return function, 1 if workers is None else workers, False
    takes_context = _takes_context(function)
    is_async = _is_async(function)
    if _is(function, inspect.isasyncgenfunction):
        raise TypeError(f"{_name(function, None)} is an async generator, but map() takes one item of each: let it return a list, and "
                        "flat_map(list) follow")
    if executor is not None:
        if is_async or takes_context:
            raise ValueError("with an executor the function must be function(item), without a context and not async")
        if concurrency is not None or timeout is not None:
            raise ValueError("concurrency and timeout are for async functions, not for an executor")
        if workers is None:
            workers = getattr(executor, "_max_workers", None) or os.cpu_count() or 1
        return _by_executor(function, executor), workers, False
    if is_async:
        if workers is not None:
            raise ValueError("an async function has no workers: set concurrency")
        if concurrency is not None and not 1 <= concurrency <= 256:
            raise ValueError(f"concurrency must be from 1 to 256, not {concurrency}")
        if timeout is not None and not timeout > 0:
            raise ValueError(f"timeout must be above 0 seconds, not {timeout}")
        return _awaited(function, takes_context, timeout), concurrency or 32, False
    if concurrency is not None or timeout is not None:
        raise ValueError("concurrency and timeout are for async functions: for others set workers")
    return function, 1 if workers is None else workers, takes_context


def _by_executor(function: Function, executor: "concurrent.futures.Executor") -> Any:
    def submit(item: Any, _: None, call: Any) -> None:
        future = executor.submit(function, item)
        call.on_stop(future.cancel)
        future.add_done_callback(call.settle)

    return _native.pipeline.Deferred(submit, False)


def _awaited(function: Function, takes_context: bool, timeout: Optional[float]) -> Any:
    import asyncio  # only here: it takes a third of the package's own time to import

    async def run(item: Any, context: Optional[Context]) -> Any:
        coroutine = function(item, context) if takes_context else function(item)
        if timeout is None:
            return await coroutine
        try:
            return await asyncio.wait_for(coroutine, timeout)
        except asyncio.TimeoutError as error:
            if str(error):
                raise
            raise TimeoutError(f"no result after {timeout} s") from None

    def schedule(item: Any, context: Optional[Context], call: Any) -> None:
        _EventLoop.shared().schedule(run(item, context), call)

    return _native.pipeline.Deferred(schedule, takes_context)


class _EventLoop:
    """The event loop of all async functions, in a thread of this process."""

    _lock = threading.Lock()
    _shared: "Optional[_EventLoop]" = None

    def __init__(self) -> None:
        import asyncio
        self._loop = asyncio.new_event_loop()
        self._calls: "collections.deque[Callable[[], Any]]" = collections.deque()
        self._is_woken = False
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="feedline-async", daemon=True)
        self._thread.start()

    def schedule(self, coroutine: Any, call: Any) -> None:
        """Runs a coroutine, which settles a PendingCall."""
        if self._is_over:
            coroutine.close()
            raise RuntimeError("the interpreter is ending")

        def start() -> None:
            if self._is_over:
                coroutine.close()
                return
            task = self._loop.create_task(coroutine)
            task.add_done_callback(call.settle)
            call.on_stop(lambda: self._soon(task.cancel))

        self._soon(start)

    def _run(self) -> None:
        import asyncio
        while not self._is_over:
            try:
                self._loop.run_forever()
            except BaseException:  # SystemExit or KeyboardInterrupt of a function, whose call it fails: the others go on
                pass
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self._loop.run_until_complete(asyncio.wait(tasks))

    def _soon(self, call: Callable[[], Any]) -> None:
        """Calls it in the loop's thread, which wakes once for what several threads ask for."""
        self._calls.append(call)
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon_threadsafe(self._call_all)

    def _call_all(self) -> None:
        self._is_woken = False
        while self._calls:
            self._calls.popleft()()

    @classmethod
    def shared(cls) -> "_EventLoop":
        with cls._lock:
            if cls._shared is None:
                cls._shared = cls()
            return cls._shared

    @classmethod
    def end(cls) -> None:
        """At the interpreter's end, which no thread may outlive: cancels what still runs."""
        loop = cls._shared
        if loop is not None:
            loop._is_over = True
            loop._loop.call_soon_threadsafe(loop._loop.stop)
            loop._thread.join(10)
            loop._call_all()

    @classmethod
    def forget(cls) -> None:
        """In a child of fork(), which has no such thread."""
        cls._lock = threading.Lock()
        cls._shared = None


atexit.register(_EventLoop.end)
os.register_at_fork(after_in_child=_EventLoop.forget)
