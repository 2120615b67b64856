"""The presets of coding agents: a module for each, with its data and a reader of its output.

They import the types of a preset, its credentials and the kinds of failure, and nothing else.
"""
