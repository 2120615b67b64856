"""The steps of a measurement in words, as far as an agent may know them."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator

from goalseek.humanize import format_duration
from goalseek.ledger.standing import Standing
from goalseek.manifest.tables import Manifest, Metric, VerifyCommand
from goalseek.measurement.verifier import timeout_of
from goalseek.workspace.scope import Scope

_RUN_LENGTH = 500
_UNSEEN = {
    "candidate": "- A command that you cannot see runs the changed files.",
    "both": "- A verifier that you cannot see runs the changed files beside files that you cannot see either.",
    "hidden": "- A verifier that you cannot see scores the result.",
}
_READ_FROM = {
    "json": "{} is read from $GOALSEEK_RUN_DIR/{}",
    "stdout": "{} is read from what it prints",
    "stderr": "{} is read from what it prints",
    "wall": "{} is its running time",
    "cpu": "{} is the processor time that it and its children take",
}
_PATH = re.compile(r"[^\s'\"`=:,;|&<>(){}$]+")


def describe_measurement(manifest: Manifest, standing: Standing, scope: Scope) -> Iterator[str]:
    """The steps of a measurement: commands that see the candidate alone as they are; of others only that they exist."""
    seconds = standing.baseline.seconds if standing.baseline else {}
    previous = ""
    for command in manifest.verify:
        line = _UNSEEN[command.sees or "both"]
        if command.sees == "candidate" and not _names_hidden(command, manifest, scope):
            facts = ", ".join(_command_facts(command, manifest.metric, seconds))
            line = f"- {_command_text(command)}{facts and f' ({facts})'}. You can run it too."
        if line != previous:
            yield line
        previous = line
    if not any(command.network for command in manifest.verify):
        yield "- The measurement has no network."


def _command_text(command: VerifyCommand) -> str:
    run = command.run if isinstance(command.run, str) else shlex.join(command.run)
    return f"`{run if len(run) <= _RUN_LENGTH else run[: _RUN_LENGTH - 1] + '…'}`"


def _command_facts(command: VerifyCommand, metric: Metric, seconds: dict[str, float]) -> Iterator[str]:
    if command.cwd != ".":
        yield f"in {command.cwd}"
    if command.name in seconds:
        yield f"{format_duration(seconds[command.name])} at the baseline"
    if timeout := timeout_of(command, seconds):
        yield f"stopped after {format_duration(timeout)}"
    if command.network:
        yield "with a network"
    if command.name == metric.command:
        yield _READ_FROM[metric.source or "json"].format(metric.name, metric.path)


def _names_hidden(command: VerifyCommand, manifest: Manifest, scope: Scope) -> bool:
    """Whether the words of a command may name a hidden file or its folder, so that the agent must not read them."""
    run = command.run if isinstance(command.run, str) else " ".join(command.run)
    outside = manifest.scope.hidden_from
    if outside and outside in run:
        return True
    for word in _PATH.findall(f"{run} {command.cwd}"):
        for path in (word, posixpath.join(command.cwd, word)):
            inside = scope.prefix + posixpath.normpath(path)
            if "hidden" in (scope.kind(inside), scope.kind(f"{inside}/x")):
                return True
    return False
