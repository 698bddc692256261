"""Learning hyperparameters."""
