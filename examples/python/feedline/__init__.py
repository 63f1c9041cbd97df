# SPDX-License-Identifier: MIT
"""Loaders that read, decode, shuffle and batch samples in background threads.

    import feedline.images
    for batch in feedline.images.Loader("train-{0000..0146}.tar", seed=7):
        step(batch["image"], batch["label"])

feedline.images: TAR shards of JPEG, PNG and WebP images; feedline.audio: spectrograms of clips in Arrow files; feedline.chess:
training tuples from games of Leela Chess Zero; feedline.text: windows of tokens. For other data and your own functions:

    train = feedline.files("photos/*/*.jpg").shuffle(10_000).map(load, workers=8).batch(64)
    for batch in train.infinite(seed=7):
        step(batch)

feedline.pipeline has these pipelines. What loaders have to say goes to the logger `feedline`.
"""
import importlib
from typing import TYPE_CHECKING

from ._native import PipelineError, __version__

_PARTS = ("audio", "chess", "images", "pipeline", "text")
__all__ = ["PipelineError", "__version__", "arrow", "concat", "dataset", "files", "iterate", "lines", "mix", "records", "tar", "zip"]

if TYPE_CHECKING:
    from . import audio as audio, chess as chess, images as images, pipeline as pipeline, text as text
    from .pipeline import (arrow as arrow, concat as concat, dataset as dataset, files as files, iterate as iterate, lines as lines,
                           mix as mix, records as records, tar as tar, zip as zip)
else:
    def __getattr__(name):
        if name in _PARTS:
            return importlib.import_module("." + name, __name__)
        if name in __all__:
            return getattr(importlib.import_module(".pipeline", __name__), name)
        raise AttributeError(f"module 'feedline' has no attribute {name!r}")


def _part(name, needs):
    """A part of the native module. Raises ImportError if it wasn't built."""
    from . import _native
    try:
        return getattr(_native, name)
    except AttributeError:
        raise ImportError(f"feedline.{name} isn't in this installation: it needs {needs} when the package is built") from None
