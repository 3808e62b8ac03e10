"""Distributions of an outcome given the latent function."""
