"""The commands, one module each: ``arguments`` fills the parser, ``run`` does the work, and may give an exit code.

They may import every package; a read-only command imports inside functions, so that it starts quickly.
"""
