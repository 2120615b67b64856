"""Git: hardened commands, objects, commits, refs, packs and paths, and what runs as the user's own git.

It knows nothing of climbs. It imports the ground floor only.
"""
