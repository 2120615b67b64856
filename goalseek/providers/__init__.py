"""Providers, which propose changes: coding agents, commands, tunables, recordings. None of them sees the decision.

It imports the ground floor, git's merges, manifest, workspace and sandbox: never ledger, project or statistics.
"""
