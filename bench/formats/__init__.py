"""Files of other programs: PyTorch, libtorch, HDF5, numpy."""
