"""The learner: fit, score, ask, tell."""
