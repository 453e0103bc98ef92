"""Text, paths, checks and progress that every sub-package uses."""
