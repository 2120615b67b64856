"""The trees of a climb: the kinds of paths, the screening of changes, the agent's tree and the verifier's bench."""
