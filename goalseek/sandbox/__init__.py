"""Untrusted programs: their view, their confinement and start, their output, and their end.

It imports the ground floor, git, manifest and workspace.
"""
