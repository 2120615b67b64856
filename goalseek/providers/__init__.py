"""Providers, which propose changes: coding agents, commands, tunables, recordings. None of them sees the decision."""
