# SPDX-License-Identifier: MIT
from . import PipelineError as PipelineError
from ._native.images import Loader as Loader, decode as decode
