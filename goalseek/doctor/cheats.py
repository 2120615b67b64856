"""Cheats: patches that game the metric. Each is made a candidate, measured like one and decided like one; it must lose.

Nothing of them is in a ref or a record.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from goalseek.doctor.isolation import against_cheats
from goalseek.evaluation.measurements import Target, measure_subject, stand_back
from goalseek.git.merge import DoesNotApply, patched
from goalseek.git.objects import Difference, Entry, Objects
from goalseek.git.paths import SUBMODULE, SYMLINK, quote_path
from goalseek.manifest.tables import Manifest
from goalseek.phase_values import Verdict
from goalseek.project.config import Config
from goalseek.project.preflight import Finding
from goalseek.project.project import Project
from goalseek.statistics.decide import Reference, decide
from goalseek.statistics.scale import representative
from goalseek.workspace.scope import DROPPINGS, Scope, clashes
from goalseek.workspace.screening import AddedFiles, why_shared

_FIRST_PLACE = 2000  # of its measurements in this process: the trial's are below, so that no seed is used twice


@dataclass(frozen=True)
class Cheat:
    """A cheat on the tree that is climbed from: its candidate's tree, or why there is none.

    ``unfit`` says in words why it cannot be tried at all, ``refused`` why its candidate is out of scope.
    """

    patch: str
    unfit: str = ""
    refused: str = ""
    tree: str = ""
    left_out: tuple[str, ...] = ()
    lines_saved: int = 0


@dataclass(frozen=True)
class CheatFinding(Finding):
    """What came of a cheat: ``lost``, and the verdict on its candidate."""

    patch: str = ""
    lost: bool = True
    outcome: str = ""
    reason: str = ""
    value: float | None = None


def prepared(project: Project, config: Config, tree: str, entries: Mapping[str, Entry]) -> tuple[Cheat, ...]:
    """Every cheat of the manifest, applied to a tree, of which only the writable paths are taken."""
    return tuple(_prepared(project, config, tree, entries, cheat.patch) for cheat in config.manifest.cheat)


def runs_owed(cheats: Sequence[Cheat], tree: str) -> int:
    """How many of them will be measured."""
    return sum(_is_measured(cheat, tree) for cheat in cheats)


def tried(project: Project, subject: Target, cheats: Sequence[Cheat], folder: Path) -> Iterator[Finding]:
    """Each cheat's verdict, as a candidate would get it. The bench stands at the subject's own tree afterwards."""
    manifest = subject.config.manifest
    try:
        for place, cheat in enumerate(cheats):
            if not cheat.unfit:
                verdict = _verdict(project, subject, cheat, _FIRST_PLACE + place, folder)
                yield _finding(manifest, cheat, verdict, _is_measured(cheat, subject.tree))
    finally:
        stand_back(project, subject)


def _prepared(project: Project, config: Config, tree: str, entries: Mapping[str, Entry], name: str) -> Cheat:
    objects, place = project.repository.objects, project.folder / name
    if place.is_file() and place.resolve() != project.folder.resolve() / Path(name):
        return Cheat(name, "is reached through a link: what it points to is not hidden; name the file itself")
    try:
        after = patched(objects, tree, place.read_bytes(), project.places.prefix)
    except OSError as error:
        return Cheat(name, f"cannot be read: {error.strerror}")
    except DoesNotApply as error:
        return Cheat(name, f"does not apply: {error}")
    edits: dict[str, Entry | None] = {}
    refused, strays = [], []
    differences = list(objects.differences(tree, after))
    added = [found.path for found in differences if found.before is None]
    removed = [found.path for found in differences if found.after is None]
    newcomers = AddedFiles(objects, tree, config.scope, added, removed)
    for found in differences:
        why = _refusal(found, objects, config.scope, entries, newcomers)
        if why:
            refused.append(why)
        elif config.scope.kind(found.path) == "writable" and not DROPPINGS(found.path):
            edits[found.path] = found.after
        elif config.scope.kind(found.path) in ("other", "kept") and not DROPPINGS(found.path):
            strays.append(quote_path(found.path))
    if strays and config.manifest.scope.strays == "reject":
        refused.append(f"new files outside the scope: {', '.join(strays)}")
    if refused:
        return Cheat(name, refused="; ".join(refused))
    made = objects.splice(tree, edits) if edits else tree
    return Cheat(name, tree=made, left_out=tuple(strays), lines_saved=_lines_saved(objects, tree, made))


def _refusal(
    found: Difference, objects: Objects, scope: Scope, entries: Mapping[str, Entry], newcomers: AddedFiles
) -> str:
    """Why a candidate that changes this path is out of scope, as for any candidate; empty where it is not."""
    path, kind, shown = found.path, scope.kind(found.path), quote_path(found.path)
    if found.before is not None:
        if kind not in ("writable", "generated"):
            return f"{shown} is not the candidate's to edit"
    elif kind == "hidden":
        return f"{shown} is new under a hidden pattern"
    elif why := why_shared(scope, path):
        return why
    elif kind != "writable" or DROPPINGS(path):
        return ""
    elif above := clashes(path, entries, lambda entry: scope.kind(entry) != "writable"):
        return f"{shown} lies below {quote_path(above)}, which is not the candidate's to edit"
    elif refusal := newcomers.refusal(path, False, is_link=found.after is not None and _is_link(found.after)):
        return refusal
    if kind != "writable" or found.after is None:
        return ""
    if found.after.mode == SUBMODULE:
        return f"{shown} is neither a file nor a link"
    return newcomers.link_refusal(path, os.fsdecode(objects.read(found.after.blob))) if _is_link(found.after) else ""


def _is_link(entry: Entry) -> bool:
    return entry.mode == SYMLINK


def _lines_saved(objects: Objects, before: str, after: str) -> int:
    listing = objects.git("diff-tree", "--numstat", "-r", before, after)
    rows = [row.split(b"\t") for row in listing.splitlines()]
    return sum(int(row[1]) - int(row[0]) for row in rows if row[0].isdigit() and row[1].isdigit())


def _is_measured(cheat: Cheat, tree: str) -> bool:
    return bool(cheat.tree) and cheat.tree != tree


def _verdict(project: Project, subject: Target, cheat: Cheat, place: int, folder: Path) -> Verdict:
    if cheat.refused:
        return Verdict("skipped", "out_of_scope", cheat.refused)
    if not _is_measured(cheat, subject.tree):
        return Verdict("skipped", "no_change", "it changes nothing that a candidate may change")
    evidence = measure_subject(project, subject, place, folder, cheat.tree)
    manifest = subject.config.manifest
    return decide(manifest.metric, manifest.guard, _to_beat(project, subject), evidence, cheat.lines_saved)


def _to_beat(project: Project, subject: Target) -> Reference:
    """What a candidate would have to beat: the incumbent, or the baseline that the known numbers will be."""
    standing = project.standing
    if standing.incumbent and standing.baseline:
        return Reference(standing.incumbent.value, standing.baseline.guards)
    return Reference(representative([made.value for made in subject.known]), subject.known[-1].guards)


def _finding(manifest: Manifest, cheat: Cheat, verdict: Verdict, is_measured: bool) -> CheatFinding:
    how = "WON" if verdict else "lost" if is_measured else "lost without being measured"
    text = f"{cheat.patch} {how}: {verdict.outcome} / {verdict.reason}: {verdict.why}"
    if cheat.left_out:
        text += f"; left out, being outside the scope: {', '.join(cheat.left_out)}"
    remedy = ""
    if verdict.reason == "simpler":
        remedy = "it moves no number, and is kept for its fewer lines: let it change the number, or take it out"
    elif verdict:
        remedy = against_cheats(manifest)
    return CheatFinding(
        "cheat",
        not verdict,
        text,
        remedy,
        cheat.patch,
        not verdict,
        verdict.outcome,
        verdict.reason,
        verdict.value,
    )
