"""Models of transformers whose weights are .cfck files."""
