"""The presets of coding agents: a module for each, with its data and a reader of its output."""
