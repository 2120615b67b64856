"""The phases of one iteration, a module each: read_context, plan, apply_change, commit, verify, decide, log."""
