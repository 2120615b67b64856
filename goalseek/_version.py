"""The version, in a module of its own: who wants only that imports nothing else."""

__version__ = "0.1.0"
