"""The decision, pure: the accept rule, the sequential test, intervals, and what the noise of a metric means.

No file, no process, no clock and no randomness of its own. It imports values, records and manifest tables.
"""
