"""The HDF5 filter of cfck beside those of hdf5plugin."""
