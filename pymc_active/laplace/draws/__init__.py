"""Draws from the posterior, from what Laplace's approximation knows."""
