"""Families of models: one file or package for each, with everything specific to it."""
