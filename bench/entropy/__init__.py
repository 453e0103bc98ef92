"""The entropy stages: sizes, parts of the speed of memcpy, where the time goes."""
