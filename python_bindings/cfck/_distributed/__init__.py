"""Compressed collectives on torch.distributed (cfck.distributed)."""
