"""Draws from the posterior, starting from its Laplace approximation."""
