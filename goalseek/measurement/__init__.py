"""One measurement: the verify commands run on a bench, and the numbers that come of it as evidence.

It imports the floors up to statistics.
"""
