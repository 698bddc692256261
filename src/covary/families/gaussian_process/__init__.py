"""Gaussian processes: regression, counts, classes. Imports nothing, so that the command can read its options quickly."""
