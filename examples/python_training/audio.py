#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains a classifier of sounds on clips in Arrow files, such as a data set that Hugging Face's save_to_disk() has written.

    audio.py FOLDER_OR_FILES... --test FILES...    # saves its state every ten batches; a second call continues

The model is a softmax regression in NumPy, so that nothing else is needed: put your own in its place. With PyTorch the arrays become
tensors without a copy: torch.from_dlpack(batch["spectrogram"]).
"""
import argparse
import os
import pickle

import numpy as np

import feedline.audio


class Classifier:
    """Softmax regression on the mean and the deviation of each mel band."""

    def __init__(self, mels, classes):
        self.weights = np.zeros((2 * mels + 1, classes), np.float32)

    def features(self, spectrogram):
        x = spectrogram / 40 + 1  # decibels, most from -80 to 0
        return np.concatenate([x.mean(2), x.std(2), np.ones((len(x), 1), np.float32)], axis=1)

    def probabilities(self, features):
        scores = features @ self.weights
        scores = np.exp(scores - scores.max(1, keepdims=True))
        return scores / scores.sum(1, keepdims=True)

    def step(self, spectrogram, label, rate):
        features = self.features(spectrogram)
        p = self.probabilities(features)
        loss = -np.log(p[np.arange(len(label)), label] + 1e-9).mean()
        p[np.arange(len(label)), label] -= 1
        self.weights -= rate * features.T @ p / len(label)
        return loss

    def correct(self, spectrogram, label):
        return (self.probabilities(self.features(spectrogram)).argmax(1) == label).sum()


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("data", nargs="+", help="Arrow files, patterns of them, or folders")
    a.add_argument("--test", nargs="+", help="the same of clips to evaluate with at the end; by default those of the training")
    a.add_argument("--audio", default="audio", help="the column of sounds")
    a.add_argument("--label", default="label", help="the column of classes, from 0 on")
    a.add_argument("--classes", type=int, default=10)
    a.add_argument("--epochs", type=int, default=10)
    a.add_argument("--seconds", type=float, default=1.0, help="of each clip")
    a.add_argument("--sample-rate", type=int, default=8000)
    a.add_argument("--workers", type=int, default=os.cpu_count())
    a.add_argument("--checkpoint", default="audio.checkpoint")
    o = a.parse_args()

    form = dict(audio=o.audio, label=o.label, sample_rate=o.sample_rate, clip_seconds=o.seconds, n_mels=64, n_fft=512, hop_length=128,
                n_workers=o.workers)
    train = feedline.audio.Loader(o.data, seed=7, batch_size=32, epochs=o.epochs, **form)
    test = feedline.audio.Loader(o.test or o.data, batch_size=32, infinite=False, augment=False, shuffle=False, **form)
    model = Classifier(64, o.classes)
    if os.path.exists(o.checkpoint):
        with open(o.checkpoint, "rb") as file:
            state, model.weights = pickle.load(file)
        train.load_state_dict(state)

    losses = []
    for batch in train:
        losses.append(model.step(batch["spectrogram"], batch["label"], rate=0.5))
        if len(losses) % 10 == 0:  # an exact state: a training that is killed continues after this batch
            with open(o.checkpoint + ".new", "wb") as file:
                pickle.dump((train.state_dict(), model.weights), file)
            os.replace(o.checkpoint + ".new", o.checkpoint)
            print(f"epoch {train.epoch}: loss {np.mean(losses[-10:]):.3f}", flush=True)
    counts = [(model.correct(batch["spectrogram"], batch["label"]), len(batch["label"])) for batch in test]
    right, total = np.sum(counts, axis=0)
    print(f"{right} of {total} clips are recognized")


if __name__ == "__main__":
    main()
