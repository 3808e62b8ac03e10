"""Criteria of the place and the height of the maximum."""
