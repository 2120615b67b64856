"""The ledger: the chain of commits that seals the records, ``results.jsonl``, and everything derived from them."""
