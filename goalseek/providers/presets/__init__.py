"""The coding agents that goalseek knows, a module each: a command line agent as data.

They import the preset's types and nothing else.
"""
