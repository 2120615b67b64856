"""The command line: parsing, output, exit codes; ``commands`` has one module for each command.

It may import every package.
"""
