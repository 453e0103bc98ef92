"""Tensors that travel between ranks."""
