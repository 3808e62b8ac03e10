"""The loop: fit, score, ask, tell."""
