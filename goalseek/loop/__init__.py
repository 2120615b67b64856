"""The climb, which is read first: the loop, one iteration of it, and the phases of an iteration in ``phases``.

It imports every floor below; only the command line imports it.
"""
