# SPDX-License-Identifier: MIT
"""Batches of training tuples from chess games of Leela Chess Zero, as NumPy arrays:

    from feedline.chess import DataLoader, DataLoaderConfig, FilePathProvider, TensorGenerator

    config = DataLoaderConfig(FilePathProvider("games/"), tensor_generator=TensorGenerator(batch=1024), seed=7)
    for planes, probabilities, winner, best_q, plies_left in DataLoader(config):
        step(torch.from_dlpack(planes), torch.from_dlpack(probabilities))
"""
from .. import PipelineError

from .config import (ChunkSourceLoader, ChunkUnpacker, DataLoaderConfig, FilePathProvider, ShufflingChunkPool,
                     ShufflingFrameSampler, TensorGenerator)
from .loader import Batch, BatchWithValues, DataLoader

__all__ = [
    "Batch", "BatchWithValues", "ChunkSourceLoader", "ChunkUnpacker", "DataLoader", "DataLoaderConfig",
    "FilePathProvider", "PipelineError", "ShufflingChunkPool", "ShufflingFrameSampler", "TensorGenerator"
]
