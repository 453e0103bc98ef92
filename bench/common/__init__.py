"""Shared by all benchmarks: data, peers, cfck, clocks, reports, the driver of the commands."""
