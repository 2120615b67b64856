"""Starting an agent's program: one that cannot be started is a failure of the provider like any other."""

from __future__ import annotations

from goalseek.disk import as_full_disk
from goalseek.providers.failures import Failed
from goalseek.providers.provider import Call, Starting
from goalseek.sandbox.supervisor import Finished


def started(call: Call, asked: Starting) -> Finished:
    """Runs it to its end. Raises Failed where it cannot be started, and OSError where the disk is full."""
    try:
        return call.start(asked)
    except OSError as error:
        if as_full_disk(error):
            raise
        raise Failed("crashed", f"the provider cannot be started: {error}") from None
