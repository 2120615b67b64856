"""One measurement: the verify commands run on a bench, and their numbers as evidence."""
