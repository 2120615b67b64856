"""What the system does not let goalseek read or write: the machine's doing, and no bug."""

from __future__ import annotations

import errno

from goalseek.errors import UNFIT, GoalseekError

_NUMBERS = (errno.EACCES, errno.EPERM, errno.EROFS)


def as_forbidden(error: Exception) -> GoalseekError | None:
    """The error for people, where it is the system that says so."""
    if not isinstance(error, OSError) or error.errno not in _NUMBERS:
        return None
    named = f"{error.filename}: " if error.filename else ""
    hint = "goalseek writes into .git, into log.home, and into XDG_CACHE_HOME (~/.cache): let it, or set another place"
    return GoalseekError(f"{named}{error.strerror}", hint, UNFIT, "repository")
