"""Weights that travel through a folder: who publishes versions, and who follows them."""
