# SPDX-License-Identifier: MIT
from . import PipelineError as PipelineError
from ._native.text import Windows as Windows
