"""Compression that is learned in training, and what it reaches."""
