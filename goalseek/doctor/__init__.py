"""The fitness of a project to run unattended: checks, trial runs of the verifier, cheats, sandbox diagnosis."""
