"""Models that run from a compressed file, beside the same models loaded."""
