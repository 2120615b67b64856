"""Who proposes: coding agents, commands, tunables, recordings. Nothing here sees who judges.

It imports the ground floor, git's merges, manifest, workspace and sandbox: never ledger, project or statistics.
"""
