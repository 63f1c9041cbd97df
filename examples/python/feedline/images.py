# SPDX-License-Identifier: MIT
"""Batches of images from TAR shards of JPEG, PNG or WebP files."""
from . import PipelineError, _part

Loader = _part("images", "libjpeg-turbo (on Debian libjpeg-dev)").Loader

__all__ = ["Loader", "PipelineError"]
