"""Whether root needs to overrule owners: without capabilities, root is a user like any other."""

from __future__ import annotations

import os

from goalseek.confinement.view import View


def overrules_owners(view: View) -> bool:
    """Whether something shown belongs to another user, and root could not use it without its capabilities."""
    if os.geteuid() != 0:
        return False
    for shown in view.everything():
        status = os.stat(shown.source)
        is_open = not shown.writable and status.st_mode & 0o005 == 0o005
        if status.st_uid != 0 and not is_open:
            return True
    return False
