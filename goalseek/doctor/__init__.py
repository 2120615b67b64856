"""Whether a project is fit to run unattended: checks, trial runs of the verifier, cheats, sandbox diagnosis.

It imports the floors up to evaluation.
"""
