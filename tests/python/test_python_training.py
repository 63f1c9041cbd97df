# SPDX-License-Identifier: MIT
# Loaders with PyTorch, and examples/python_training/train.py. Without PyTorch all of it is skipped.
import json
import os
import pathlib
import subprocess
import sys
import tarfile

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader, IterableDataset, get_worker_info  # noqa: E402

import feedline_test_module as fl  # noqa: E402

TRAIN = pathlib.Path(__file__).resolve().parents[2] / "examples/python_training/train.py"
MODULES = os.environ.get("FEEDLINE_PACKAGE", "")  # the folder of the package feedline


class Stream(IterableDataset):
    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        return iter(self.loader)


def test_tensors_share_the_memory_of_arrays():
    batch = next(iter(fl.Examples(4)))
    tensor = torch.from_dlpack(batch["pixels"])
    assert tensor.dtype == torch.float32 and tensor.shape == (4, 3)
    assert tensor.data_ptr() == batch["pixels"].ctypes.data
    batch["pixels"][1, 2] = 42
    assert tensor[1, 2] == 42
    assert torch.from_dlpack(batch["half"]).dtype == torch.float16
    assert torch.from_numpy(batch["label"]).tolist() == [0, 1, 2, 3]


def test_bfloat16_arrives_as_such():
    batch = next(iter(fl.Examples(4)))
    tensor = torch.from_dlpack(batch["brain"])
    assert tensor.dtype == torch.bfloat16 and tensor.tolist() == [0, 1, 2, 3]
    tensor[0] = 5
    assert batch["brain"].bits[0] == 0x40a0


def test_tensors_outlive_the_loader():
    tensors = [torch.from_dlpack(batch["pixels"]) for batch in fl.Examples(40)]
    brains = [torch.from_dlpack(batch["brain"]) for batch in fl.Examples(40)]
    assert torch.cat(tensors)[:, 0].tolist() == list(range(40))
    assert torch.cat(brains).tolist() == list(range(40))


def test_a_loader_is_a_dataset_of_batches():
    batches = list(DataLoader(Stream(fl.Numbers(10, batch_size=4)), batch_size=None))
    assert all(isinstance(batch, torch.Tensor) for batch in batches)
    assert torch.cat(batches).tolist() == np.concatenate(list(fl.Numbers(10, batch_size=4))).tolist()
    (values, lengths), = next(iter(DataLoader(Stream(fl.Padded(3, fields="tuple")), batch_size=None)))
    assert values.shape == (3, 3) and lengths.tolist() == [1, 2, 3]


def test_passes_of_a_dataset_go_on_with_the_epochs():
    data = DataLoader(Stream(fl.Numbers(10)), batch_size=None)
    first, second = torch.cat(list(data)).tolist(), torch.cat(list(data)).tolist()
    assert sorted(first) == sorted(second) and first != second


@pytest.mark.parametrize("start, error", [("fork", RuntimeError), ("spawn", TypeError)])
def test_worker_processes_are_refused(start, error):
    loader = fl.Numbers(100, infinite=True)
    next(iter(loader))
    data = DataLoader(Stream(loader), batch_size=None, num_workers=1, multiprocessing_context=start)
    with pytest.raises(error, match="num_workers=0"):
        next(iter(data))
    assert len(next(iter(loader))) == 4  # here it goes on


class MadeInTheWorker(IterableDataset):
    def __iter__(self):
        worker = get_worker_info()
        return iter(fl.Numbers(8, batch_size=2, rank=worker.id, world_size=worker.num_workers))


def test_a_loader_may_be_made_in_a_worker_process():
    batches = list(DataLoader(MadeInTheWorker(), batch_size=None, num_workers=2, multiprocessing_context="fork"))
    assert sorted(torch.cat(batches).tolist()) == list(range(8))


def test_a_state_is_saved_with_a_model(tmp_path):
    loader = fl.Numbers(50)
    seen = next(iter(loader)).tolist()
    torch.save({"loader": loader.state_dict()}, tmp_path / "checkpoint.pt")
    resumed = fl.Numbers(50, resume=torch.load(tmp_path / "checkpoint.pt")["loader"])
    assert seen + np.concatenate(list(resumed)).tolist() == np.concatenate(list(fl.Numbers(50))).tolist()


# ---- train.py


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    image = pytest.importorskip("PIL.Image")
    folder = tmp_path_factory.mktemp("shards")
    random = np.random.default_rng(1)
    for s in range(2):
        with tarfile.open(folder / f"{s}.tar", "w") as archive:
            for i in range(8):
                image.fromarray(random.integers(0, 256, (40, 50, 3), np.uint8)).save(folder / "x.jpg")
                (folder / "x.cls").write_text(str(i % 3))
                archive.add(folder / "x.jpg", f"{s}{i}.jpg")
                archive.add(folder / "x.cls", f"{s}{i}.cls")
    return folder / "*.tar"


def train(shards, *arguments):
    if not MODULES:
        pytest.skip("the package feedline isn't built")
    return subprocess.run(
        [sys.executable, TRAIN, "--batch=4", "--size=32", "--classes=3", *arguments, shards],
        env=dict(os.environ, PYTHONPATH=MODULES), capture_output=True, text=True, timeout=200)


@pytest.mark.parametrize("loader", ["feedline", "feedline in DataLoader", "PyTorch"])
def test_train_measures_each_loader(loader, shards):
    if loader == "PyTorch":
        pytest.importorskip("torchvision")
    outcome = train(shards, "--loader", loader, "--steps=3", "--json")
    assert outcome.returncode == 0, outcome.stderr
    result = json.loads(outcome.stdout)
    assert result["images_per_second"] > 0 and result["seconds_to_first_batch"] > 0
    assert 0 < result["loss"][1] < 10 and "memory_mb" not in result  # looking at the memory would have slowed it
    outcome = train(shards, "--loader", loader, "--steps=3", "--json", "--memory")
    assert outcome.returncode == 0, outcome.stderr
    assert list(json.loads(outcome.stdout)) == ["memory_mb"]


def test_train_compares_the_loaders(shards):
    pytest.importorskip("torchvision")
    outcome = train(shards, "--steps=3", "--turns=1", "--no-model")
    assert outcome.returncode == 0, outcome.stderr
    lines = outcome.stdout.splitlines()
    assert lines[0].startswith("Python ") and f"PyTorch {torch.__version__}, torchvision " in lines[0]
    assert [line[:24].strip() for line in lines[2:]] == ["", "feedline", "feedline in DataLoader", "PyTorch"]
    assert lines[-1].endswith("1.00")
