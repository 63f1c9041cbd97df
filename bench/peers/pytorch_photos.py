#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How many photographs a second does PyTorch's DataLoader decode and batch?

Usage: bench/peers/pytorch_photos.py [--workers 2] [--batch 32] [--passes 5] SHARD.tar...

Reads the same TAR shards as bench_photos (needs torch; Pillow or torchvision decodes), keeps order, gathers lists of
images, and prints the median of the passes for each decoder. Workers are kept between passes, and a first pass warms up.
"""
import argparse
import glob
import io
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


class Photos(Dataset):
    """The members `*.jpg` of TAR shards, found once; each worker opens the shards for itself."""

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


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("shards", nargs="+")
    arguments.add_argument("--workers", type=int, default=2)
    arguments.add_argument("--batch", type=int, default=32)
    arguments.add_argument("--passes", type=int, default=5)
    options = arguments.parse_args()
    shards = sorted(path for pattern in options.shards for path in glob.glob(pattern))
    torch.set_num_threads(1)

    for name, make_decoder in (("Pillow", pillow_decoder), ("torchvision.io", torchvision_decoder)):
        try:
            decode = make_decoder()
        except ImportError as error:
            print(f"{name:16} not measured: {error}")
            continue
        loader = DataLoader(
            Photos(shards, decode),
            batch_size=options.batch,
            num_workers=options.workers,
            persistent_workers=options.workers > 0,
            collate_fn=list,
            multiprocessing_context="fork" if options.workers else None,
        )
        rates = []
        for _ in range(options.passes + 1):
            begin = time.perf_counter()
            photos = sum(len(batch) for batch in loader)
            rates.append(photos / (time.perf_counter() - begin))
        print(f"{name:16} {statistics.median(rates[1:]):8.1f} photos/s (median of {options.passes} passes)")


if __name__ == "__main__":
    main()
