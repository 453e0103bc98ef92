"""This command measures what calibration, refinement and shrinking cost and achieve."""
