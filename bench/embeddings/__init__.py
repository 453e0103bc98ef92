"""Looked-up rows of embedding tables."""
