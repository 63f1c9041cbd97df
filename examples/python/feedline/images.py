# SPDX-License-Identifier: MIT
"""Batches of images from TAR shards of JPEG, PNG or WebP files."""
from . import PipelineError, _part

_images = _part("images", "libjpeg-turbo (on Debian libjpeg-dev)")
Loader = _images.Loader
decode = _images.decode

__all__ = ["Loader", "PipelineError", "decode"]
