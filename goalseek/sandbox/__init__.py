"""Programs that are not trusted: what each may see, and how it is started, confined, heard and ended.

It imports the ground floor, git, manifest and workspace.
"""
