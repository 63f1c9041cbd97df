# SPDX-License-Identifier: MIT
# Items that are Python objects, in a pipeline that was composed while the program runs.
import gc
import weakref

import pytest

import feedline_test_module as module


class Item:
    def __init__(self, n):
        self.n = n


def values(loader, count=10**9):
    return [item.n for _, item in zip(range(count), loader)]


@pytest.mark.parametrize("workers", [1, 3, 16])
def test_python_functions_run_on_workers_in_order(workers):
    loader = module.Mapped(Item, 100, workers, seed=7, epochs=2)
    found = values(loader)
    assert sorted(found) == sorted(2 * [n for n in range(100) if n % 5 != 4])
    assert found == values(module.Mapped(Item, 100, 2, seed=7, epochs=2))
    assert [s["name"] for s in loader.metrics()["stages"]][1:] == ["map `call`", "shuffle", "filter"]


def test_a_run_is_resumed_with_the_objects_that_a_buffer_held():
    whole = values(module.Mapped(Item, 50, seed=3, epochs=2))
    for at in range(0, len(whole) - 1, 7):
        run = module.Mapped(Item, 50, seed=3, epochs=2)
        assert values(run, at) == whole[:at]
        rest = module.Mapped(Item, 50, 5, epochs=2, resume=run.state_dict())
        assert values(rest) == whole[at:]


def test_an_exception_is_the_failure_of_its_sample():
    def fails(n):
        if n in (10, 20):
            raise LookupError(f"no {n}")
        return Item(n)

    loader = module.Mapped(fails, 50, on_error="skip")
    assert len(values(loader)) == 38
    assert sorted(f["sample"] for f in loader.failures()) == [10, 20]
    with pytest.raises(module.PipelineError, match="no [12]0") as caught:
        values(module.Mapped(fails, 50))
    assert type(caught.value.__cause__) is LookupError
    assert caught.value.__cause__.__traceback__.tb_frame.f_code.co_name == "fails"


@pytest.mark.parametrize("leave", ["end", "close", "stop", "drop"])
def test_objects_are_freed(leave):
    alive = weakref.WeakSet()

    def make(n):
        item = Item(n)
        alive.add(item)
        return item

    loader = module.Mapped(make, 300, 4, infinite=leave != "end")
    values(loader, 10**9 if leave == "end" else 20)
    if leave in ("close", "stop"):
        getattr(loader, leave)()
    del loader
    gc.collect()
    assert len(alive) == 0


def test_a_loader_is_collected_that_its_function_refers_to():
    class Owner:
        def __init__(self):
            self.loader = module.Mapped(self.make, 100, infinite=True)

        def make(self, n):
            return Item(n)

    for begins in (False, True):
        owner = Owner()
        if begins:
            next(owner.loader)
        gone = weakref.ref(owner)
        del owner
        gc.collect()
        assert gone() is None
