"""The options of calls: declared, described and checked."""
