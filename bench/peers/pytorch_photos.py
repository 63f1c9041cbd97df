#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How many photographs per second does PyTorch's DataLoader decode and batch?

Usage: bench/peers/pytorch_photos.py [--crops] [--workers 2,4] [--batch 32] [--passes 5]
           [--json FILE] [--suffix TEXT] SHARD.tar...

Reads the same TAR shards as bench_photos, keeps their order and gathers lists of images. Needs torch; Pillow or
torchvision decodes. For each decoder, prints the median of the passes and the processor time per photograph in all
processes. --crops does the work of bench_photo_crops: RandomResizedCrop to 224 x 224, RandomHorizontalFlip, float from 0
to 1, Normalize, stacked. Each pass has about all photographs. Passes follow without a pause, so that no worker waits for
the others at the end of a pass; the first pass warms up.
"""
import argparse
import glob
import io
import itertools
import json
import resource
import statistics
import tarfile
import time

import torch
from torch.utils.data import DataLoader, Dataset


def pillow_decoder():
    import numpy
    from PIL import Image

    return lambda data: torch.from_numpy(numpy.array(Image.open(io.BytesIO(data)).convert("RGB")))


def torchvision_decoder():
    from torchvision.io import ImageReadMode, decode_jpeg

    return lambda data: decode_jpeg(torch.frombuffer(bytearray(data), dtype=torch.uint8), mode=ImageReadMode.RGB)


def with_crops(decode, as_numbers):
    """Decodes, then applies torchvision's augmentation for training on ImageNet."""
    from torchvision import transforms

    return transforms.Compose([
        decode,
        transforms.RandomResizedCrop(224),
        transforms.RandomHorizontalFlip(),
        as_numbers,
        transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    ])


def pillow_crops():
    from PIL import Image
    from torchvision import transforms

    return with_crops(lambda data: Image.open(io.BytesIO(data)).convert("RGB"), transforms.ToTensor())


def torchvision_crops():
    from torchvision import transforms

    return with_crops(torchvision_decoder(), transforms.ConvertImageDtype(torch.float))


def processor_seconds():
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


class Photos(Dataset):
    """The members `*.jpg` of TAR shards, found once. Each worker opens the shards separately."""

    def __init__(self, shards, decode):
        self.decode = decode
        self.members = []
        self.files = {}
        for shard in shards:
            with tarfile.open(shard) as archive:
                self.members += [(shard, m.offset_data, m.size) for m in archive if m.name.endswith(".jpg")]

    def __len__(self):
        return len(self.members)

    def __getitem__(self, i):
        shard, offset, size = self.members[i]
        if shard not in self.files:
            self.files[shard] = open(shard, "rb")
        self.files[shard].seek(offset)
        return self.decode(self.files[shard].read(size))


def measure(photos, workers, options):
    """Returns photographs per second in the median pass, and seconds of processor time per photograph."""
    before = processor_seconds()
    # Each worker makes the same number of batches in a pass.
    round_of = max(1, workers)
    in_pass = max(1, -(-len(photos) // (options.batch * round_of))) * round_of
    batches = iter(DataLoader(
        photos,
        sampler=[i % len(photos) for i in range((options.passes + 1) * in_pass * options.batch)],
        batch_size=options.batch,
        num_workers=workers,
        collate_fn=None if options.crops else list,
        multiprocessing_context="fork" if workers else None,
    ))
    rates, decoded = [], 0
    for _ in range(options.passes + 1):
        begin = time.perf_counter()
        count = sum(map(len, itertools.islice(batches, in_pass)))
        rates.append(count / (time.perf_counter() - begin))
        decoded += count
    del batches  # ends its workers, so that their processor time counts
    return statistics.median(rates[1:]), (processor_seconds() - before) / decoded


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("shards", nargs="+")
    arguments.add_argument("--crops", action="store_true")
    arguments.add_argument("--json", help="also write the figures to this file, as Google Benchmark does")
    arguments.add_argument("--suffix", default="", help="ends the names of the figures in that file")
    arguments.add_argument("--workers", default="2", help="a number, or several such as 1,2,4")
    arguments.add_argument("--batch", type=int, default=32)
    arguments.add_argument("--passes", type=int, default=5)
    options = arguments.parse_args()
    shards = sorted(path for pattern in options.shards for path in glob.glob(pattern))
    torch.set_num_threads(1)

    tasks = (("Pillow", pillow_crops), ("torchvision.io", torchvision_crops)) if options.crops else (
        ("Pillow", pillow_decoder), ("torchvision.io", torchvision_decoder))
    results = []
    for name, make_decoder in tasks:
        try:
            photos = Photos(shards, make_decoder())
        except ImportError as error:
            print(f"{name:16} not measured: {error}")
            continue
        for workers in map(int, options.workers.split(",")):
            rate, seconds = measure(photos, workers, options)
            print(f"{name:16} {workers:3} workers {rate:8.1f} photos/s (median of {options.passes} passes), "
                  f"{seconds * 1e6:.0f} us of processor time each")
            run = f"pytorch_{name}{options.suffix}/{workers}/process_time/real_time"
            results.append({
                "name": run, "run_name": run, "aggregate_name": "median", "items_per_second": rate, "time_unit": "s",
                "real_time": 1 / rate, "cpu_time": seconds})
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"benchmarks": results}, file, indent=1)


if __name__ == "__main__":
    main()
