"""The presets of the coding agents that goalseek knows: a module for each, which is data and a reader of its output.

They import the types of a preset, its credentials and the kinds of failure, and nothing else.
"""
