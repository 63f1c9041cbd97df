# SPDX-License-Identifier: MIT
"""Batches of mel spectrograms from Arrow files, and a function that decodes sounds."""
from . import PipelineError, _part

_audio = _part("audio", "libsndfile, libsoxr, FFTW and FlatBuffers (on Debian libsndfile1-dev, libsoxr-dev, libfftw3-dev and "
                        "libflatbuffers-dev)")
Loader = _audio.Loader
decode = _audio.decode

__all__ = ["Loader", "PipelineError", "decode"]
