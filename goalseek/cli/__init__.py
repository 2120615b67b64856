"""The command line: parsing, output, exit codes, and in ``commands`` one file a command.

It imports every floor.
"""
