"""The open project: opening, limits, status, and a person's directions and answers.

It imports the floors up to providers.
"""
