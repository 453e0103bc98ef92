"""Codecs under error bounds, and what the bounds do to models."""
