"""Files: opened, read, written, updated and summarised."""
