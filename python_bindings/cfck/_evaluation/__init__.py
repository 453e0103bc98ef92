"""Two models compared on the same inputs: evaluate."""
