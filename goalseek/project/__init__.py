"""The open project: opening it, whether it is fit, its limits, its status, and what a person says to it.

It imports the floors up to providers.
"""
