#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains a network that says who wins, on games of Leela Chess Zero.

    chess.py FOLDER --steps 1000        # a second call continues

The model is a softmax regression in NumPy, so that nothing else is needed: put your own in its place. With PyTorch the arrays become
tensors without a copy: torch.from_dlpack(batch.planes).
"""
import argparse
import os
import pickle

import numpy as np

from feedline.chess import (ChunkUnpacker, DataLoader, DataLoaderConfig, FilePathProvider, ShufflingFrameSampler, TensorGenerator)


class Value:
    """Softmax regression of win, draw and loss on the planes of a position."""

    def __init__(self):
        self.weights = np.zeros((112 * 64, 3), np.float32)

    def step(self, planes, winner, rate):
        x = planes.reshape(len(planes), -1)
        x = x / np.maximum(1, np.linalg.norm(x, axis=1, keepdims=True))
        scores = x @ self.weights
        p = np.exp(scores - scores.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        loss = -(winner * np.log(p + 1e-9)).sum(1).mean()
        self.weights -= rate * x.T @ (p - winner) / len(x)
        return loss


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("games", nargs="+", help="folders, or .gz and .tar files, of training data")
    a.add_argument("--steps", type=int, default=1000)
    a.add_argument("--batch", type=int, default=256)
    a.add_argument("--reservoir", type=int, default=100_000, help="positions that are shuffled")
    a.add_argument("--workers", type=int, default=os.cpu_count())
    a.add_argument("--checkpoint", default="chess.checkpoint")
    o = a.parse_args()

    config = DataLoaderConfig(FilePathProvider(o.games), chunk_unpacker=ChunkUnpacker(o.workers),
                              shuffling_frame_sampler=ShufflingFrameSampler(o.reservoir), tensor_generator=TensorGenerator(o.batch),
                              seed=7, infinite=True)
    model, steps, state = Value(), 0, None
    if os.path.exists(o.checkpoint):
        with open(o.checkpoint, "rb") as file:
            state, model.weights, steps = pickle.load(file)
    loader = DataLoader(config, resume=state)

    losses = []
    while steps < o.steps:
        batch = next(loader)
        losses.append(model.step(batch.planes, batch.winner, rate=1.0))
        steps += 1
        if steps % 10 == 0 or steps == o.steps:  # an exact state: a training that is killed continues after this batch
            with open(o.checkpoint + ".new", "wb") as file:
                pickle.dump((loader.state_dict(), model.weights, steps), file)
            os.replace(o.checkpoint + ".new", o.checkpoint)
            print(f"step {steps}: loss {np.mean(losses[-10:]):.3f}", flush=True)
    print(f"trained for {steps} steps; games that can't be read: {len(loader.failures())}")


if __name__ == "__main__":
    main()
