# SPDX-License-Identifier: MIT
# What the tests of the modules share.
import re

import numpy as np


def parameters_of(cls):
    """The names and defaults of a class's constructor, as its documentation has them, up to the keyword-only ones."""
    signature = cls.__init__.__doc__.splitlines()[0]
    names, _, keywords = signature.partition(", *, ")
    names = re.sub(r"\[[^()]*?\](?=[ ,)=])", "", names)  # types have commas, too
    found = re.findall(r"(\w+): [\w.]+(?: = (\([^)]*\)|[^,)]+))?", names)
    assert found[0][0] == "self"
    return [f"{name}={default}" if default else name for name, default in found[1:]], keywords


def check_same(some, others):
    """Whether two lists of batches are equal, byte for byte."""
    assert len(some) == len(others)
    for a, b in zip(some, others):
        assert list(a) == list(b)
        for name in a:
            assert a[name].dtype == b[name].dtype and np.array_equal(a[name], b[name])


def take(loader, count):
    return [next(loader) for _ in range(count)]


def indices(batches):
    return np.concatenate([b["index"] for b in batches]).tolist()


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
