"""``goalseek audit``: records against git against seals; ``--rebuild`` writes ``results.jsonl`` again from git."""

from __future__ import annotations

import argparse

from goalseek.audit import Audit, audit
from goalseek.cli.answer import answer_lines, say, wants_json
from goalseek.cli.options import loaded
from goalseek.deviations import Deviation
from goalseek.errors import BAD_FINDING, UNFIT, USAGE, GoalseekError
from goalseek.lock import only_writer
from goalseek.manifest_file import Loaded
from goalseek.opening import open_repository
from goalseek.repository import Repository


def arguments(parser: argparse.ArgumentParser) -> None:
    """What ``audit`` takes."""
    parser.add_argument("--rebuild", action="store_true", help="write results.jsonl again from git, then audit")
    parser.add_argument("--rerun", metavar="N", help="not yet: measure iteration N again")


def run(options: argparse.Namespace) -> int:
    """Names every difference, a line each; 0 where there is none."""
    if options.rerun is not None:
        raise GoalseekError("audit --rerun: not yet", "leave it out", USAGE)
    manifest = loaded(options)
    repository = open_repository(manifest)
    try:
        _refuse_nothing(manifest, repository)
        with only_writer(repository.own):
            found = audit(manifest, repository, options.rebuild)
    finally:
        repository.close()
    if wants_json(options):
        answer_lines(options, found.deviations)
        for line in (*found.notes, _summary(found)):
            say(options, line)
    else:
        print("\n".join([*found.notes, *map(_line, found.deviations), _summary(found)]))
    return BAD_FINDING if found.deviations else 0


def _refuse_nothing(manifest: Loaded, repository: Repository) -> None:
    """Raises GoalseekError, and leaves no trace, where nothing was ever recorded or fetched."""
    refs = repository.refs()
    if refs.ledger or refs.tip or (manifest.logs / "results.jsonl").exists():
        return
    hint = "climb first: goalseek iterate; in a clone: git fetch origin 'refs/goalseek/*:refs/goalseek/*'"
    raise GoalseekError(f"there is no {repository.ledger_ref}: nothing to audit", hint, UNFIT, "repository")


def _line(deviation: Deviation) -> str:
    text = (
        f"{deviation.where}: {deviation.what}: expected {deviation.expected or 'nothing'}, "
        f"found {deviation.found or 'nothing'}"
    )
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _summary(found: Audit) -> str:
    records, differences = found.records, len(found.deviations)
    plural = "" if differences == 1 else "s"
    return f"{records} record{'' if records == 1 else 's'}, {differences} difference{plural}; {found.seals}"
