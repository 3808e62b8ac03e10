"""Any PyMC model: its posterior by annealed particles, and what the next outcome tells."""
