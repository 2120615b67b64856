"""Git: hardened commands, objects, commits, refs, packs and paths, and the user's own git; nothing of climbs."""
