"""A model stored as small as an outcome allows: shrink."""
