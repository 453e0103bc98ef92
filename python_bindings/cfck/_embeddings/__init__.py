"""Rows of embedding tables that travel between ranks."""
