"""Kernels: expressions, radial profiles, and arrays with exact derivatives."""
