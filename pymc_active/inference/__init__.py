"""What every approximation of the posterior over hyperparameters gives: an ensemble of weighted hyperparameters."""
