"""Providers, which propose changes: coding agents, commands, tunables, recordings. None of them sees the decision.

It imports the ground floor, git's objects and merges, manifest and sandbox: never ledger, project or statistics.
"""
