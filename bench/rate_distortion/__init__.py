"""Rate-distortion curves of codec spectral and its peers."""
