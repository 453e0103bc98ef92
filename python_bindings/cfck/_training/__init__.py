"""Compression that is learned while a model is trained (cfck.train)."""
