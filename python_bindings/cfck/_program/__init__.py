"""This room holds the command line of Python: `python -m cfck` and `cfck shrink`."""
