"""Untrusted programs: their view, their confinement and start, their output, and their end."""
