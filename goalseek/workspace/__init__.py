"""The trees of a climb: what each path may be, what a change may hold, the agent's tree and the verifier's bench.

It imports the ground floor, git and manifest.
"""
