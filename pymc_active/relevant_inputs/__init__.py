"""Hierarchical diagonal sampling: which of very many inputs matter."""
