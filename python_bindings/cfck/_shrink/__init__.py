"""The smallest file that meets a goal: shrink."""
