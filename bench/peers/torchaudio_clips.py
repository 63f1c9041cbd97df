#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How many mel spectrograms per second does PyTorch's DataLoader make from clips with torchaudio?

Usage: bench/peers/torchaudio_clips.py [--workers 2] [--batch 64] [--passes 5] [--json FILE] CLIP.wav...

Does the work of bench_audio_clips, on the clips that it writes to the folder FEEDLINE_BENCH_CLIPS: decodes them from
memory, resamples to 32 kHz, crops or pads to 5 s, and makes logarithmic mel spectrograms with 128 mels (FFT 1024, hop 320),
each in the worker that collates its batch. (On one thread, several clips at once are slower.) Needs torch and torchaudio.
Prints the median of the passes for torchaudio's decoder and for Python's module `wave`, and the processor time per clip in
all processes. Passes follow without a pause, so that no worker waits for the others at the end of a pass; the first pass
warms up.

If torch was built without a fast BLAS, as on Debian, most of the time goes into one matrix product: install libopenblas0
and set OPENBLAS_NUM_THREADS=1 to measure what torchaudio can do.
"""
import argparse
import io
import itertools
import json
import resource
import statistics
import time
import wave

import torch
import torchaudio
from torch.utils.data import DataLoader, Dataset

RATE, SECONDS = 32000, 5


def torchaudio_decoder(data):
    samples, rate = torchaudio.load(io.BytesIO(data))
    return samples[0], rate


def wave_decoder(data):
    """Decodes WAV with 16 bits and one channel."""
    with wave.open(io.BytesIO(data)) as file:
        frames = bytearray(file.readframes(file.getnframes()))
        return torch.frombuffer(frames, dtype=torch.int16).to(torch.float32).mul_(2.0**-15), file.getframerate()


def processor_seconds():
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


class Clips(Dataset):
    """The logarithmic mel spectrograms of encoded clips in memory."""

    def __init__(self, files, decode):
        self.files = files
        self.decode = decode
        self.resamplers = {}
        self.mel = torchaudio.transforms.MelSpectrogram(RATE, n_fft=1024, hop_length=320, n_mels=128)

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        samples, rate = self.decode(self.files[i])
        if rate not in self.resamplers:
            self.resamplers[rate] = torchaudio.transforms.Resample(rate, RATE)
        samples = self.resamplers[rate](samples)
        length = RATE * SECONDS
        if len(samples) > length:
            begin = int(torch.randint(len(samples) - length + 1, ()))
            samples = samples[begin:begin + length]
        elif len(samples) < length:
            samples = torch.nn.functional.pad(samples, (0, length - len(samples)))
        return self.mel(samples).clamp_(min=1e-10).log_()


def measure(clips, options):
    """Returns clips per second in the median pass, and seconds of processor time per clip."""
    before = processor_seconds()
    # Each worker makes the same number of batches in a pass.
    round_of = max(1, options.workers)
    in_pass = max(1, -(-options.clips // (options.batch * round_of))) * round_of
    batches = iter(DataLoader(
        clips,
        sampler=[i % len(clips) for i in range((options.passes + 1) * in_pass * options.batch)],
        batch_size=options.batch,
        num_workers=options.workers,
        multiprocessing_context="fork" if options.workers else None,
    ))
    rates, made = [], 0
    for _ in range(options.passes + 1):
        begin = time.perf_counter()
        count = sum(map(len, itertools.islice(batches, in_pass)))
        rates.append(count / (time.perf_counter() - begin))
        made += count
    del batches  # ends its workers, so that their processor time counts
    return statistics.median(rates[1:]), (processor_seconds() - before) / made


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("files", nargs="+")
    arguments.add_argument("--json", help="also write the figures to this file, as Google Benchmark does")
    arguments.add_argument("--workers", type=int, default=2)
    arguments.add_argument("--batch", type=int, default=64)
    arguments.add_argument("--clips", type=int, default=1024, help="clips per pass")
    arguments.add_argument("--passes", type=int, default=5)
    options = arguments.parse_args()
    files = []
    for path in options.files:
        with open(path, "rb") as file:
            files.append(file.read())
    file_rate = wave_decoder(files[0])[1]
    torch.set_num_threads(1)  # as in the workers

    results = []
    for name, decode in (("torchaudio", torchaudio_decoder), ("wave", wave_decoder)):
        rate, seconds = measure(Clips(files, decode), options)
        print(f"{name:12} {options.workers:3} workers {rate:8.1f} clips/s (median of {options.passes} passes), "
              f"{seconds * 1e6:.0f} us of processor time each")
        run = f"pytorch_{name}/{options.workers}/{file_rate}/process_time/real_time"
        results.append({
            "name": run, "run_name": run, "aggregate_name": "median", "items_per_second": rate, "time_unit": "s",
            "real_time": 1 / rate, "cpu_time": seconds})
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"benchmarks": results}, file, indent=1)


if __name__ == "__main__":
    main()
