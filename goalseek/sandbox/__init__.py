"""Programs that are not trusted: what each may see, how it is confined and started, its output, and its end.

It imports the ground floor, git, manifest and workspace.
"""
