"""numpy and torch behind one protocol: tensors described for writing, memory for reading."""
