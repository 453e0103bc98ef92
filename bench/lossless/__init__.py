"""Sizes and speeds without loss, beside those of peers."""
