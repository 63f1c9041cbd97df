# SPDX-License-Identifier: MIT
"""Makes one batch of the items of a list, and measures items."""
import copy
import dataclasses
import gc
import numbers
import sys
import types
from typing import Any, Dict, List, Set

import numpy


def collate(items: List[Any], _where: str = "") -> Any:
    """Stacks arrays, numbers and PyTorch's tensors; lists texts and everything else; and does so with each field of dicts, tuples and
    dataclasses. Raises ValueError that names the field if the items don't fit each other."""
    first = items[0]
    kind = type(first)
    if isinstance(first, numpy.ndarray):
        masked = any(isinstance(item, numpy.ma.MaskedArray) for item in items)
        return _stacked(numpy.ma.stack if masked else numpy.stack, items, _where)
    if isinstance(first, (str, bytes)):
        return items
    if isinstance(first, (numbers.Number, numpy.generic)):
        return _stacked(numpy.array, items, _where)
    if isinstance(first, dict):
        for item in items:
            if not isinstance(item, dict) or item.keys() != first.keys():
                raise _unequal("fields", _names(first), _names(item), _where)
        return {key: collate([item[key] for item in items], f"{_where}[{key!r}]") for key in first}
    if isinstance(first, tuple):
        for item in items:
            if not isinstance(item, tuple) or len(item) != len(first):
                raise _unequal("elements", len(first), len(item) if isinstance(item, tuple) else item, _where)
        columns = [collate(list(column), f"{_where}[{i}]") for i, column in enumerate(zip(*items))]
        return kind(*columns) if hasattr(first, "_fields") else tuple(columns)
    if dataclasses.is_dataclass(first):
        for item in items:
            if type(item) is not kind:
                raise _unequal("types", kind.__name__, type(item).__name__, _where)
        made = copy.copy(first)  # not by its constructor, which may check what one item has
        for f in dataclasses.fields(first):
            object.__setattr__(made, f.name, collate([getattr(item, f.name) for item in items], f"{_where}.{f.name}"))
        return made
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(first, torch.Tensor):
        return _stacked(torch.stack, items, _where)
    return items


def bytes_of(item: Any, most: int) -> int:
    """The bytes of an item with all that it holds; or a number above `most` if it has more. An array counts as often as it is there, since a
    batch copies it each time; one that is a view has the bytes of its whole array, unless something else refers to that, too.
    Everything else counts once; modules, classes, functions and loggers don't."""
    total = 0
    seen: Set[int] = set()
    views: Dict[int, List[Any]] = {}  # by their base: it, their bytes, and their number
    logging = sys.modules.get("logging")
    shared = _SHARED if logging is None else (*_SHARED, logging.Logger)
    left = [item]
    while left and total <= most:
        part = left.pop()
        kind = type(part)
        if kind in _PLAIN:
            if id(part) not in seen:
                seen.add(id(part))
                total += sys.getsizeof(part)
        elif issubclass(kind, numpy.ndarray):
            base = part.base
            while isinstance(base, numpy.ndarray) and base.base is not None:
                base = base.base
            if base is None:
                total += max(sys.getsizeof(part), part.nbytes)
            else:
                total += sys.getsizeof(part)
                of_base = views.setdefault(id(base), [base, 0, 0])
                of_base[1] += part.nbytes
                of_base[2] += id(part) not in seen
            del base
            if id(part) not in seen:
                seen.add(id(part))
                left += gc.get_referents(part)  # of a subclass
                if part.dtype.hasobject:
                    left += part.ravel().tolist()
        elif id(part) not in seen and not issubclass(kind, shared):
            seen.add(id(part))
            total += _own_bytes(part)
            left += gc.get_referents(part)
    for base, size, count in views.values():
        # This loop, its list, getrefcount() and the views
        is_its_own = sys.getrefcount(base) <= 3 + count and type(base).__module__ != "mmap"
        total += max(size, _own_bytes(base)) if is_its_own else size
    return total


_PLAIN = frozenset((int, float, bool, complex, str, bytes, bytearray, type(None)))
_SHARED = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.CodeType, types.FrameType,
           types.TracebackType)


def _own_bytes(item: Any) -> int:
    try:
        own = sys.getsizeof(item, 64)
        if hasattr(item, "element_size") and hasattr(item, "nelement"):  # a tensor of PyTorch's
            return max(own, int(item.element_size() * item.nelement()))
        if type(item).__module__.startswith("PIL.") and hasattr(item, "getbands"):
            width, height = item.size
            return own + width * height * (1 if item.mode in ("1", "L", "P") else 4)
        return own if type(item) is memoryview else max(own, int(getattr(item, "nbytes", 0)))
    except Exception:  # of a function of the item's class
        return 64


def _stacked(stack: Any, items: List[Any], where: str) -> Any:
    try:
        made = stack(items)
    except (TypeError, ValueError, RuntimeError) as error:
        shapes = [getattr(item, "shape", None) for item in items]
        other = next((i for i, shape in enumerate(shapes) if shape != shapes[0]), None)
        if other is None:
            raise ValueError(f"the items can't be stacked{_at(where)}: {error}") from error
        raise _unequal("shapes", shapes[0], shapes[other], where) from error
    if isinstance(made, numpy.ndarray) and made.dtype.kind in "OSU" and not isinstance(items[0], numpy.ndarray):
        raise ValueError(f"the items can't be stacked{_at(where)}: they aren't all numbers or arrays of one shape")
    if isinstance(made, numpy.ndarray) and made.dtype.kind == "f" and all(isinstance(item, numbers.Integral) for item in items):
        raise ValueError(f"the items can't be stacked{_at(where)}: no type of whole numbers has all of {min(items)} to {max(items)}")
    return made


def _names(item: Any) -> Any:
    return sorted(item, key=str) if isinstance(item, dict) else type(item).__name__


def _unequal(what: str, one: Any, other: Any, where: str) -> ValueError:
    return ValueError(f"the items of a batch have different {what}{_at(where)}: {one} and {other}")


def _at(where: str) -> str:
    return f" at {where}" if where else ""
