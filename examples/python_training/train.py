#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains a small network on photographs in TAR shards, with feedline and with PyTorch's own DataLoader in turns, and compares
them: images per second, processor time, memory, time to the first batch, and time to stop by Ctrl-C.

    train.py 'train-*.tar'                     # all loaders in turns, and a table of the medians
    train.py --loader feedline 'train-*.tar'   # train with one of them
    train.py --no-model 'train-*.tar'          # only read the batches: what the loaders can do

Memory is measured in runs of its own (--memory): looking at it slows the loader, above all one with several processes.

feedline is the package of the example python. PyTorch's loader decodes with Pillow and augments with torchvision, in
worker processes. Both read the same members, NAME.jpg and NAME.cls, crop at random (RandomResizedCrop), flip and normalize.
"""
import argparse
import glob
import importlib
import io
import json
import os
import platform
import random
import resource
import signal
import statistics
import subprocess
import sys
import tarfile
import threading
import time

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Stream(IterableDataset):
    """A loader of feedline as PyTorch's dataset of whole batches: for DataLoader(Stream(loader), batch_size=None). feedline has
    threads of its own, so num_workers stays 0: in a worker process the loader raises RuntimeError."""

    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        for batch in self.loader:
            yield torch.from_dlpack(batch["image"]), torch.from_dlpack(batch["label"])


def feedline_loader(options):
    import feedline.images

    return feedline.images.Loader(options.shards, seed=options.seed, batch_size=options.batch, n_workers=options.workers,
                                  size=options.size, shuffle_buffer_size=options.shuffle)


def feedline_batches(options):
    yield from Stream(feedline_loader(options))


def stream_batches(options):
    yield from DataLoader(Stream(feedline_loader(options)), batch_size=None, num_workers=0)


class Photos(Dataset):
    """The samples of TAR shards, found once. Each worker opens the shards separately."""

    def __init__(self, shards, transform):
        self.transform = transform
        self.samples = []
        self.files = {}
        for shard in shards:
            with tarfile.open(shard) as archive:
                members = {m.name: m for m in archive}
                for name, m in members.items():
                    if name.endswith(".jpg"):
                        label = int(archive.extractfile(members[name[:-4] + ".cls"]).read())
                        self.samples.append((shard, m.offset_data, m.size, label))

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        from PIL import Image

        shard, offset, size, label = self.samples[i]
        if shard not in self.files:
            self.files[shard] = open(shard, "rb")
        self.files[shard].seek(offset)
        return self.transform(Image.open(io.BytesIO(self.files[shard].read(size))).convert("RGB")), label


class Forever(torch.utils.data.Sampler):
    """Random orders, one after another, so that no worker waits at the end of a pass."""

    def __init__(self, count, seed):
        self.count, self.random = count, random.Random(seed)

    def __iter__(self):
        while True:
            yield from self.random.sample(range(self.count), self.count)


def pytorch_batches(options):
    from torchvision import transforms

    photos = Photos(options.shards, transforms.Compose([
        transforms.RandomResizedCrop(options.size),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize(MEAN, STD),
    ]))
    yield from DataLoader(photos, batch_size=options.batch, sampler=Forever(len(photos), options.seed),
                          num_workers=options.workers)


LOADERS = {"feedline": feedline_batches, "feedline in DataLoader": stream_batches, "PyTorch": pytorch_batches}
# Imported before anything is measured.
MODULES = {"feedline": ["feedline.images"], "feedline in DataLoader": ["feedline.images"],
           "PyTorch": ["PIL.Image", "torchvision.transforms"]}


class Model:
    """A network that is small enough not to hide the loader."""

    def __init__(self, options):
        torch.manual_seed(options.seed)
        layers = torch.nn
        self.network = layers.Sequential(
            layers.Conv2d(3, 16, 8, stride=8), layers.ReLU(), layers.Conv2d(16, 32, 4, stride=4), layers.ReLU(),
            layers.AdaptiveAvgPool2d(1), layers.Flatten(), layers.Linear(32, options.classes))
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=0.05)

    def learn(self, images, labels):
        self.optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(self.network(images), labels)
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())


def processes():
    """This process and its children."""
    found = [os.getpid()]
    for pid in found:
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as children:
                    found += map(int, children.read().split())
        except OSError:
            pass  # it has ended
    return found


def memory():
    """Bytes of all processes; what they share counts once."""
    total = 0
    for pid in processes():
        try:
            with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as numbers:
                total += sum(int(line.split()[1]) for line in numbers if line.startswith("Pss:")) * 1024
        except OSError:
            pass
    return total


class PeakMemory:
    """The most memory since it was made, looked at ten times a second."""

    def __init__(self):
        self.before = self.peak = memory()
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def watch(self):
        while not self.ended.wait(0.1):
            self.peak = max(self.peak, memory())

    def above_start(self):
        self.ended.set()
        self.thread.join()
        return self.peak - self.before


def processor_seconds():
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def train(options):
    """Trains with one loader, and returns what was measured. Ctrl-C ends it as the last step would."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a program started in the background inherits that it is ignored
    for module in MODULES[options.loader]:
        importlib.import_module(module)
    torch.set_num_threads(1)  # the loaders have the other processors
    learn = Model(options).learn if options.model else lambda images, labels: 0.0
    learn(torch.zeros(options.batch, 3, options.size, options.size), torch.zeros(options.batch, dtype=torch.int64))
    peak = PeakMemory() if options.memory else None
    processor, begin = processor_seconds(), time.monotonic()
    first = last = images = step = 0
    loss = []
    batches = LOADERS[options.loader](options)
    try:
        for step, (pixels, labels) in enumerate(batches, 1):
            if step == 1:
                first = time.monotonic()
            elif step == 2 and options.announce:
                print("training", flush=True)
            loss.append(learn(pixels, labels))
            images += len(labels)
            if options.verbose and step % 10 == 0:
                print(f"step {step}  loss {statistics.mean(loss[-10:]):.3f}", flush=True)
            if step == options.steps:
                break
        last = time.monotonic()
    except KeyboardInterrupt:
        last = time.monotonic()
    above = peak.above_start() if peak else None
    pixels = labels = None
    batches.close()  # ends the loader: its processor time counts
    del batches
    ended = time.monotonic()
    if peak:
        return {"memory_mb": above / 1e6}
    return {
        "images_per_second": (images - options.batch) / (last - first) if step > 1 else 0.0,
        "processor_ms_per_image": 1000 * (processor_seconds() - processor) / max(images, 1),
        "seconds_to_first_batch": first - begin if first else None,
        "loss": [loss[0], statistics.mean(loss[-10:])] if loss else None,
        "ended": ended,
    }


def command(options, loader, *more):
    same = [f"--{name}={getattr(options, name)}" for name in ("batch", "workers", "size", "shuffle", "seed", "classes", "steps")]
    return [sys.executable, os.path.abspath(__file__), "--loader", loader, "--json", *([] if options.model else ["--no-model"]),
            *same, *more, *options.shards]


def seconds_to_stop(options, loader):
    """From Ctrl-C, which a terminal sends to all processes, until the loader has ended."""
    options = argparse.Namespace(**dict(vars(options), steps=10**9))
    with subprocess.Popen(command(options, loader, "--announce"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          start_new_session=True) as process:
        if process.stdout.readline() != "training\n":
            raise SystemExit(f"training with {loader} has failed")
        time.sleep(1)
        begin = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)
        result = process.communicate(timeout=100)[0]
    return json.loads(result)["ended"] - begin


def versions():
    yield "Python", platform.python_version()
    for title, module in ("PyTorch", "torch"), ("torchvision", "torchvision"), ("Pillow", "PIL"):
        yield title, importlib.import_module(module).__version__


def compare(options):
    results = {loader: [] for loader in LOADERS}
    for turn in range(options.turns):
        for loader in LOADERS:
            result = {}
            for more in ([], ["--memory"]):
                output = subprocess.run(command(options, loader, *more), stdout=subprocess.PIPE, text=True, check=True).stdout
                result.update(json.loads(output))
            result["seconds_to_stop"] = seconds_to_stop(options, loader)
            results[loader].append(result)
            print(f"turn {turn + 1}: {loader}: {result['images_per_second']:.0f} images/s", file=sys.stderr, flush=True)
    columns = {
        "images_per_second": "images/s", "processor_ms_per_image": "processor time", "memory_mb": "memory",
        "seconds_to_first_batch": "first batch", "seconds_to_stop": "Ctrl-C"}
    medians = {loader: {c: statistics.median(r[c] for r in runs) for c in columns} for loader, runs in results.items()}
    print(", ".join(f"{name} {version}" for name, version in versions()))
    print(f"Medians of {options.turns} turns: batches of {options.batch} images of {options.size} x {options.size}, {options.workers} "
          f"workers, {'a small network' if options.model else 'no network'}; memory above that at the start")
    print(f"{'':24}" + "".join(f"{title:>16}" for title in columns.values()) + f"{'speed':>10}")
    for loader, m in medians.items():
        print(f"{loader:24}{m['images_per_second']:16.0f}{m['processor_ms_per_image']:13.2f} ms{m['memory_mb']:13.0f} MB"
              f"{m['seconds_to_first_batch']:14.2f} s{1000 * m['seconds_to_stop']:13.0f} ms"
              f"{m['images_per_second'] / medians['PyTorch']['images_per_second']:10.2f}")


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("shards", nargs="+", help="TAR files or patterns of them")
    a.add_argument("--loader", choices=LOADERS, help="train with this one; otherwise all of them are compared")
    a.add_argument("--batch", type=int, default=64)
    a.add_argument("--workers", type=int, default=2, help="threads of feedline, processes of PyTorch")
    a.add_argument("--size", type=int, default=224, help="side of the images")
    a.add_argument("--shuffle", type=int, default=1000, help="samples in feedline's shuffle buffer; PyTorch's order is random")
    a.add_argument("--steps", type=int, default=100)
    a.add_argument("--turns", type=int, default=3)
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--classes", type=int, default=1000)
    a.add_argument("--no-model", dest="model", action="store_false", help="only read the batches")
    a.add_argument("--memory", action="store_true", help="measure the memory instead of the speed, which that lowers")
    a.add_argument("--json", action="store_true", help="print the results as JSON only")
    a.add_argument("--announce", action="store_true", help=argparse.SUPPRESS)
    options = a.parse_args()
    if options.steps < 2:
        a.error("--steps must be 2 or more: the first batch is measured by itself")
    options.shards = [path for pattern in options.shards for path in sorted(glob.glob(pattern)) or [pattern]]
    options.verbose = not options.json
    if options.loader is None:
        if options.memory:
            a.error("--memory needs --loader: without it the memory is measured in any case")
        return compare(options)
    result = train(options)
    if options.json:
        print(json.dumps(result))
    elif options.memory:
        print(f"{result['memory_mb']:.0f} MB above that at the start")
    else:
        print(f"{result['images_per_second']:.0f} images/s, first batch after {result['seconds_to_first_batch']:.2f} s")


if __name__ == "__main__":
    main()
