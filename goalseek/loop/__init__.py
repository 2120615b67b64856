"""The climb, to be read first: the loop, its iterations, and their phases in ``phases``.

It imports every floor below; only the command line imports it.
"""
