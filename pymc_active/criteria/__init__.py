"""Criteria: what a measurement is worth."""
