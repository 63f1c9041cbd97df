# SPDX-License-Identifier: MIT
"""Batches of windows of tokens from files of numbers."""
from . import PipelineError, _part

Windows = _part("text", "no library").Windows

__all__ = ["PipelineError", "Windows"]
