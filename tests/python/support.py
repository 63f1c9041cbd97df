# SPDX-License-Identifier: MIT
# What the tests of the modules share.
import os
import subprocess

import numpy as np


def run_program(variable, *arguments):
    """Runs the program that an environment variable names, without the address sanitizer's runtime that Python needs: it has its own."""
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    subprocess.run([os.environ[variable], *map(str, arguments)], check=True, timeout=120, env=environment)


def parameters_of(cls):
    """The parameters of a class's constructor, as `name=default` from its documentation: up to `*`, and after it."""
    text = cls.__init__.__doc__.splitlines()[0].partition("(")[2].rpartition(")")[0]
    parts, depth = [""], 0
    for c in text:
        depth += (c in "[(") - (c in "])")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    found = []
    for part in parts:
        name, _, default = part.strip().partition(" = ")
        found.append(name.partition(":")[0] + ("=" + default if default else ""))
    assert found[0] == "self"
    star = found.index("*")
    return found[1:star], found[star + 1:]


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


class Counting:
    """Counts to a number, with its position as its state."""

    def __init__(self, last):
        self.last = last
        self.at = 0
        self.read = []

    def __iter__(self):
        while self.at < self.last:
            self.at += 1
            self.read.append(self.at)
            yield self.at
        self.at = 0

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]
