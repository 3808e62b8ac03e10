"""Entropies and divergences of one-dimensional distributions."""
