# SPDX-License-Identifier: MIT
"""Makes one batch of the items of a list, and measures items."""
import copy
import dataclasses
import numbers
import sys
from typing import Any, List, Optional, Set

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


def bytes_of(item: Any, _seen: Optional[Set[int]] = None) -> int:
    """The bytes of an item: arrays and tensors have those of their elements, or of those of which they are a part; and dicts, lists,
    tuples, sets, dataclasses and other objects with attributes those of what they hold, each counted once."""
    seen = set() if _seen is None else _seen
    if id(item) in seen:
        return 0
    seen.add(id(item))
    own = sys.getsizeof(item)
    if isinstance(item, numpy.ndarray):
        base = item
        while isinstance(base.base, numpy.ndarray):
            base = base.base
        return max(own, base.nbytes)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(item, torch.Tensor):
        return max(own, item.element_size() * item.nelement())
    if isinstance(item, dict):
        return own + sum(bytes_of(part, seen) for pair in item.items() for part in pair)
    if isinstance(item, (list, tuple, set, frozenset)):
        return own + sum(bytes_of(part, seen) for part in item)
    if isinstance(item, type):
        return own
    if dataclasses.is_dataclass(item):
        return own + sum(bytes_of(getattr(item, field.name), seen) for field in dataclasses.fields(item))
    return own + (bytes_of(vars(item), seen) if hasattr(item, "__dict__") else 0)


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
