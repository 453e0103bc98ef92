"""Chunks of consecutive values, of which all ranks choose the same (docs/distributed.md)."""

from __future__ import annotations

import torch


def chunk_norms(values: torch.Tensor, chunk_elems: int) -> torch.Tensor:
    """The L1 norms of the chunks of a flat tensor; the last one may be shorter."""
    n_whole = values.numel() // chunk_elems * chunk_elems
    whole = values[:n_whole].view(-1, chunk_elems)
    norms: torch.Tensor = torch.linalg.vector_norm(whole, 1, dim=1)
    if n_whole == values.numel():
        return norms
    return torch.cat([norms, torch.linalg.vector_norm(values[n_whole:], 1).view(1)])


def places_of_chunks(chunks: torch.Tensor, chunk_elems: int, n: int) -> torch.Tensor:
    """The flat indices of the values in some chunks of a tensor of n values."""
    offsets = torch.arange(chunk_elems, device=chunks.device)
    places = (chunks[:, None] * chunk_elems + offsets).view(-1)
    return places[places < n]
