"""Measurements outside an iteration: settling, holdout, comparison, noise, and reproducing a record.

It imports the floors up to proposal.
"""
