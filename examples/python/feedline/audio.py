# SPDX-License-Identifier: MIT
"""Batches of mel spectrograms from Arrow files."""
from . import PipelineError, _part

Loader = _part("audio", "libsndfile, libsoxr, FFTW and FlatBuffers (on Debian libsndfile1-dev, libsoxr-dev, libfftw3-dev and "
                        "libflatbuffers-dev)").Loader

__all__ = ["Loader", "PipelineError"]
