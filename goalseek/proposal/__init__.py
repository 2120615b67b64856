"""Asking for a proposal: the brief, the prompt, the launch of the agent, and the cost of the call."""
