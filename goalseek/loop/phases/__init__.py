"""The phases of one iteration, a module each, in the order of ``read_context`` to ``log``.

They import what ``loop`` may import.
"""
