"""What ``provider.record`` stores: each call with its prompt, what came of it and the patch, without credentials."""

from __future__ import annotations

import json
from collections.abc import Callable

from goalseek.errors import Rejected
from goalseek.files import write_durably
from goalseek.phase_values import Rejection
from goalseek.project.project import Run
from goalseek.providers.provider import Reply
from goalseek.providers.replay import Recording, file_name
from goalseek.sandbox.redaction import Secrets


def recorder(
    run: Run, iteration: int, name: str, prompt: str, secrets: Secrets
) -> Callable[[Reply, Rejected | None, bytes], None]:
    """What is to be told how a call ended; does nothing where the manifest records none.

    A call that is made again after a kill replaces its recording.
    """
    where = run.provider_table().record
    if where is None:
        return lambda reply, rejected, patch: None
    folder = run.folder / where

    def keep(reply: Reply, rejected: Rejected | None, patch: bytes) -> None:
        if rejected is None and not (reply.title or reply.output or patch):
            return  # nobody was asked: a command without ask_plan
        stopped = None
        if rejected:
            edits = None if rejected.edits is None else ()
            stopped = Rejection(rejected.outcome, rejected.reason, rejected.why, rejected.usage, edits)
        recording = Recording(iteration, name, prompt, reply, patch.decode("utf-8", "surrogateescape"), stopped)
        text = json.dumps(recording.as_plain(secrets.hidden_text), indent=1) + "\n"
        write_durably(folder / file_name(iteration, name), text.encode())

    return keep
