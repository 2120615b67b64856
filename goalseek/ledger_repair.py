"""The ledger's newest commits made again where git lost them: from ``results.jsonl``, whose lines are their messages.

A commit follows from its message, the one below it and its ruler, so making it again gives the same name, which is
held against the ref.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from goalseek.errors import UNFIT, GoalseekError
from goalseek.git.command import Missing
from goalseek.git.objects import Entry
from goalseek.git.repository import Repository
from goalseek.history import History
from goalseek.records import IterationRecord, from_line

RULER_FILE = "ruler.json"


def ruler_copy(repository: Repository) -> Path:
    """A copy of the newest ruler, beside the store that has it."""
    return repository.own / RULER_FILE


def repair_head(repository: Repository, history: History, head: str) -> None:
    """Makes the commits below ``head``, and it, again, as far as they are missing. Raises GoalseekError otherwise."""
    lines = [line.text for line in history.forward()]
    below, missing = _newest_known(repository, lines)
    try:
        for line in missing:
            below = _commit(repository, below, line)
    except (ValueError, OSError):
        raise Missing(head) from None
    if below == head:
        return
    message = f"{repository.ledger_ref} is at {head[:12]}, which git does not have any more; the records end before it"
    hint = (
        f"fetch it from a clone: git fetch CLONE 'refs/goalseek/*:refs/goalseek/*'; or go on from the last record: "
        f"git update-ref {repository.ledger_ref} {below}; rm {repository.own / 'ledger'}"
    )
    raise GoalseekError(message, hint, UNFIT, "repository")


def _newest_known(repository: Repository, lines: list[bytes]) -> tuple[str, list[bytes]]:
    """The newest of the lines' commits that git has, or the chain's root, and the lines above it."""
    listing = repository.objects.git("cat-file", "--batch-all-objects", "--batch-check=%(objecttype) %(objectname)")
    wanted, known = set(lines), dict[bytes, str]()
    for line in listing.decode().splitlines():
        kind, name = line.split(" ")
        if kind == "commit":
            message = repository.objects.read(name).partition(b"\n\n")[2]
            if message in wanted:
                known[message] = name
    for place in reversed(range(len(lines))):
        if lines[place] in known:
            return known[lines[place]], lines[place + 1 :]
    empty = repository.objects.write_tree({})
    return repository.commit(empty, (), f"goalseek ledger {repository.name}\n", 0), lines


def _commit(repository: Repository, below: str, line: bytes) -> str:
    record = from_line(line)
    objects, tree, parents = repository.objects, repository.tree_of(below), [below]
    if isinstance(record, IterationRecord):
        parents += [record.commit_hash] if record.commit_hash else []
        if record.outcome == "baseline":
            blob = objects.write_bytes(ruler_copy(repository).read_bytes())
            tree = objects.write_tree({RULER_FILE: Entry("100644", blob)})
    moment = int(datetime.fromisoformat(record.timestamp).timestamp())
    return repository.commit(tree, parents, line.decode("utf-8", "surrogateescape"), moment)
