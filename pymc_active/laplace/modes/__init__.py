"""The search for the modes of a posterior."""
