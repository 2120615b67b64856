"""Measuring outside an iteration: settling, holdout, comparison, noise, and measuring a record again.

It imports the floors up to proposal.
"""
