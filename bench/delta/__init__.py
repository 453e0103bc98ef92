"""Patches between the steps of a training, beside what weights are sent with today."""
