"""The commands, a module each: ``arguments`` for its parser and ``run`` for what it does.

They import every floor; what only looks imports late, so that it starts quickly.
"""
