"""The phases of one iteration, a module each: read_context, plan, apply_change, commit, verify, decide, log.

``review``, and a person's approval in ``decide``, come after the verdict where the manifest asks for them. They import
what ``loop`` may import.
"""
