#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How does the kind of JPEG change the speed of a loader? Re-encodes the photographs of TAR shards, for bench_photo_crops.

Usage: bench/reencode_photos.py [--quality 90] OUTPUT_FOLDER SHARD.tar...

Makes a folder for each kind: 444, 420, 444-progressive and 420-progressive (the chroma subsampling; baseline JPEG unless
it says progressive). Each folder has shards with the same names and members. Compare with 444, as re-encoding also
changes the size of a photograph. Then run: FEEDLINE_BENCH_PHOTOS='OUTPUT_FOLDER/420/*.tar' bench_photo_crops. Needs
Pillow.
"""
import argparse
import glob
import io
import os
import tarfile

from PIL import Image, ImageFile

ImageFile.MAXBLOCK = 1 << 26  # must be as large as a progressive file

KINDS = {
    "444": {"subsampling": "4:4:4", "progressive": False},
    "420": {"subsampling": "4:2:0", "progressive": False},
    "444-progressive": {"subsampling": "4:4:4", "progressive": True},
    "420-progressive": {"subsampling": "4:2:0", "progressive": True},
}


def reencode(data, quality, kind):
    photo = Image.open(io.BytesIO(data))
    if photo.mode not in ("L", "RGB"):
        photo = photo.convert("RGB")
    output = io.BytesIO()
    photo.save(output, "JPEG", quality=quality, **KINDS[kind])
    return output.getvalue()


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("output")
    arguments.add_argument("shards", nargs="+")
    arguments.add_argument("--quality", type=int, default=90)
    options = arguments.parse_args()
    shards = sorted(path for pattern in options.shards for path in glob.glob(pattern))
    if not shards:
        arguments.error("no shards found: " + " ".join(options.shards))
    for kind in KINDS:
        os.makedirs(os.path.join(options.output, kind), exist_ok=True)
        photos, size = 0, 0
        for shard in shards:
            copy = os.path.join(options.output, kind, os.path.basename(shard))
            with tarfile.open(shard) as old, tarfile.open(copy, "w", format=tarfile.USTAR_FORMAT) as new:
                for member in old:
                    if not member.isfile():
                        continue
                    data = old.extractfile(member).read()
                    if member.name.endswith((".jpg", ".jpeg")):
                        data = reencode(data, options.quality, kind)
                        photos, size = photos + 1, size + len(data)
                    member.size = len(data)
                    new.addfile(member, io.BytesIO(data))
        print(f"{kind:16} {photos} photographs, {size / max(1, photos) / 1000:.0f} KB each")


if __name__ == "__main__":
    main()
