"""The climb, which is read first: the loop, one iteration, and its phases in ``phases``.

It imports every floor below; only the command line imports it.
"""
