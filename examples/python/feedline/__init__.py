# SPDX-License-Identifier: MIT
"""Loaders that read, decode, shuffle and batch samples in background threads.

    import feedline.images
    for batch in feedline.images.Loader("train-{0000..0146}.tar", seed=7):
        step(batch["image"], batch["label"])

feedline.images: TAR shards of JPEG, PNG and WebP images; feedline.audio: spectrograms of clips in Arrow files; feedline.chess:
training tuples from games of Leela Chess Zero; feedline.text: windows of tokens. What the loaders have to say goes to the logger `feedline`.
"""
import importlib
from typing import TYPE_CHECKING

from ._native import PipelineError, __version__

__all__ = ["PipelineError", "__version__"]
_PARTS = ("audio", "chess", "images", "text")

if TYPE_CHECKING:
    from . import audio as audio, chess as chess, images as images, text as text
else:
    def __getattr__(name):
        if name in _PARTS:
            return importlib.import_module("." + name, __name__)
        raise AttributeError(f"module 'feedline' has no attribute {name!r}")


def _part(name, needs):
    """A part of the native module. Raises ImportError if it wasn't built."""
    from . import _native
    try:
        return getattr(_native, name)
    except AttributeError:
        raise ImportError(f"feedline.{name} isn't in this installation: it needs {needs} when the package is built") from None
