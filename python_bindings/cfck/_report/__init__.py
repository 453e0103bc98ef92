"""Pages and pictures about files of tensors."""
