"""The climb, to be read first: the loop, its iterations, and their phases in ``phases``."""
