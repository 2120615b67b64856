"""The ledger: the chain of commits that seals the records, ``results.jsonl``, and all that is derived of them.

It imports the floors up to measurement.
"""
