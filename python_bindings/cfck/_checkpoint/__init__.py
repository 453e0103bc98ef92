"""Trees of containers, plain values and tensors: save_checkpoint and load_checkpoint."""
