"""The commands, one module each: ``arguments`` fills the parser, ``run`` does the work and gives the exit code.

They may import every package; a read-only command imports inside functions, so that it starts quickly.
"""
