"""The decision: accept rule, sequential test, intervals, noise. No file, process, clock or randomness of its own."""
