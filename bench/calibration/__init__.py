"""What calibration, refinement and shrinking cost and achieve."""
