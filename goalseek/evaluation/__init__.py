"""Measurements outside an iteration: settling, holdout, comparison, noise, and reproducing a record."""
