"""Spaces of inputs that are more than numbers between two ends."""
