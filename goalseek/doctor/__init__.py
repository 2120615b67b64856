"""Whether a project is fit for the night: checks, trial runs, cheats, and why a sandbox breaks a command.

It imports the floors up to evaluation.
"""
