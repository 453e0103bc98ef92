"""What `python -m cfck` and `cfck shrink` do."""
