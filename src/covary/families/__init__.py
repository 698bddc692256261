"""Model families: one package for each, holding everything specific to it."""
