"""The presets of the coding agents that goalseek knows: a module for each, which is data and a reader of its output.

They import the preset's types and nothing else.
"""
