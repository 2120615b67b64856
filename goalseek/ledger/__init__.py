"""What happened: records, the chain of commits that seals them, results.jsonl, and all that is derived from these.

It imports the floors up to measurement.
"""
