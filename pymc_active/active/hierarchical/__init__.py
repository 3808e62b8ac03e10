"""Which of very many inputs matter: hierarchical diagonal sampling, its rivals, and optimisation on what it finds."""
