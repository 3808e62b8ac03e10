"""The log posterior over the hyperparameters, by arrays or by PyTensor graphs."""
