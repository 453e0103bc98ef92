"""Decoding on a CUDA device, and loads onto it."""
