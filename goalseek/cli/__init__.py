"""The command line: parsing, output, exit codes; ``commands`` has one module for each command."""
