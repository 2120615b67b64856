"""``goalseek promote``: the kept changes as ordinary commits of yours."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from goalseek import promote
from goalseek.believed import believed_standing
from goalseek.cli.answer import answer, say, wants_json
from goalseek.cli.options import loaded
from goalseek.errors import USAGE, GoalseekError
from goalseek.history import History
from goalseek.opening import open_repository
from goalseek.promote import Promoted
from goalseek.repository import Repository
from goalseek.standing import Standing
from goalseek.views.style import painter


def arguments(parser: argparse.ArgumentParser) -> None:
    """What ``promote`` takes."""
    parser.add_argument("--branch", metavar="NAME", help="make this new branch of the kept changes")
    parser.add_argument("--onto", metavar="REV", help="on this base (the commit that the climb began at)")
    parser.add_argument("--squash", action="store_true", help="as one commit")
    parser.add_argument("--patch", metavar="FILE", help="the whole as a patch, - for stdout")


def run(options: argparse.Namespace) -> int:
    """Previews, or makes branch or patch."""
    manifest = loaded(options)
    history = History(manifest.logs / "results.jsonl")
    standing = believed_standing(manifest)
    if standing.baseline is None:
        raise GoalseekError("nothing is measured yet, so nothing was kept", "climb first: goalseek iterate")
    repository = open_repository(manifest)
    try:
        base = _base(options, repository, standing)
        promoted = promote.replay(repository, promote.kept_records(history, standing.epoch), base)
        if options.squash:
            promoted = promote.squashed(promoted, repository, base, standing.metric)
        return _carry_out(options, repository, promoted, base)
    finally:
        repository.close()


def _base(options: argparse.Namespace, repository: Repository, standing: Standing) -> str:
    assert standing.baseline
    if options.onto is None:
        return promote.own_base(repository, standing.baseline)
    found = repository.resolve(options.onto)
    if found is None:
        raise GoalseekError(f"--onto {options.onto}: there is no such commit", "name a commit, branch or tag", USAGE)
    return found


def _carry_out(options: argparse.Namespace, repository: Repository, promoted: list[Promoted], base: str) -> int:
    if not promoted:
        say(options, "nothing was kept, or the base has it all: there is nothing to promote")
    commit, patch = None, b""
    if options.patch and promoted:
        patch = promote.patch_between(repository, base, promoted[-1].tree)
        if options.patch != "-":
            _write(Path(options.patch), patch)
    if options.branch and promoted:
        commit = promote.commit_all(repository, promoted, base)
        promote.make_branch(repository, options.branch, commit)
    if options.patch == "-" and promoted:
        sys.stdout.buffer.write(patch)
        return 0
    if wants_json(options):
        rows = [{"iterations": one.iterations, "message": one.message, "files": one.files} for one in promoted]
        answer(options, {"base": base, "branch": options.branch, "commit": commit, "commits": rows})
        return 0
    _show(options, promoted, base, commit)
    return 0


def _write(path: Path, patch: bytes) -> None:
    try:
        path.write_bytes(patch)
    except OSError as error:
        raise GoalseekError(f"--patch {path}: {error.strerror}", "name a file that can be written") from None


def _show(options: argparse.Namespace, promoted: list[Promoted], base: str, commit: str | None) -> None:
    paint = painter(sys.stdout, options.color)
    print(f"{len(promoted)} commit{'s' if len(promoted) != 1 else ''} on {base[:12]}:")
    for one in promoted:
        title, *_, last = one.message.strip().splitlines()
        print(f"  {', '.join(map(str, one.iterations)):>4}  {title}  {paint(last, 'green')}")
        for path in one.files:
            print(f"        {paint(path, 'grey')}")
    if commit:
        print(f"branch {options.branch} is at {commit[:12]}; your checkout is untouched: git switch {options.branch}")
    elif options.patch:
        print(f"written to {options.patch}; git apply takes it")
    elif promoted:
        print("this was a preview; make them with: goalseek promote --branch NAME")
