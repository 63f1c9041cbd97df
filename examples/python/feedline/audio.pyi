# SPDX-License-Identifier: MIT
from . import PipelineError as PipelineError
from ._native.audio import Loader as Loader, decode as decode
