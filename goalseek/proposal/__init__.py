"""Asking for a proposal: the brief, the prompt, the launch of the agent, and what the call costs.

It imports the floors up to project.
"""
