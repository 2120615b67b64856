"""The open project: opening, limits, status, and a person's directions and answers."""
