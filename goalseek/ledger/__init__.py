"""The ledger and the records: the chain of commits that seals them, ``results.jsonl``, and all that is derived of them.

It imports the floors up to measurement.
"""
