"""A view laid out as mounts: which place is mounted where, which links are made, what is covered, in which order."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from goalseek.errors import UNFIT, GoalseekError
from goalseek.sandbox.executables import resolve_links
from goalseek.sandbox.view import Mount, View, readable

LASTING = Path("/var/tmp")  # for what outlives a restart; nothing does here
Links = tuple[tuple[Path, str], ...]


@dataclass(frozen=True)
class Layout:
    """What to mount in an empty root, what to cover in it, and which links to make. All paths are real ones."""

    mounts: tuple[Mount, ...]
    links: Links
    covered: tuple[Mount, ...]


def check(view: View) -> None:
    """Raises GoalseekError where something shown is not there, or is what must not be seen."""
    masked = {resolve_links(path).real: path for path in view.masked}
    for shown in view.everything():
        if not shown.source.exists():
            raise GoalseekError(f"sandbox: there is no {shown.source}", "make it, or take it out", UNFIT, "sandbox")
        hidden = masked.get(resolve_links(shown.source).real)
        if hidden is not None:
            message = f"sandbox: {hidden} must not be seen, and is shown as {shown.at}"
            raise GoalseekError(message, "take it out of sandbox.read and scope.share", UNFIT, "sandbox")


def lay_out(view: View) -> Layout:
    """The mounts of a view that was checked."""
    found, links = _system(view.network)
    mounts, made = dict(found), dict(links)
    lasting = Mount(view.temporary.source, LASTING, writable=True)
    for shown in (lasting, *view.everything()):
        if shown.at.is_relative_to(view.tree.at):  # links of the user's checkout are not in the tree
            at = resolve_links(view.tree.at).real / shown.at.relative_to(view.tree.at)
        else:
            way = resolve_links(shown.at)
            made.update(way.links)
            at = way.real
        mounts[str(at)] = Mount(resolve_links(shown.source).real, at, shown.writable)
    made.update(resolve_links(view.tree.at).links)
    needed = _needed(mounts)
    empty = tuple(resolve_links(path).real for path in (view.home.at, view.temporary.at, LASTING))
    return Layout(tuple(needed.values()), _missing(made, needed, empty), tuple(_covered(view, needed)))


def holder(mounts: Mapping[str, Mount], path: Path) -> Mount | None:
    """The mount, by the path it is seen at, that a path is seen in."""
    place = str(path)
    while place and place not in mounts:
        place = place.rpartition("/")[0]
    return mounts.get(place or "/")


@functools.cache
def _system(network: bool) -> tuple[Mapping[str, Mount], Links]:
    """The mounts and links that every view has."""
    ways = [resolve_links(path) for path in readable(network)]
    mounts = _needed({str(way.real): Mount.in_place(way.real) for way in ways})
    return mounts, _missing({place: target for way in ways for place, target in way.links}, mounts, ())


def _needed(mounts: Mapping[str, Mount]) -> dict[str, Mount]:
    """Without what is seen anyway, outer ones first."""
    kept: dict[str, Mount] = {}
    for mount in sorted(mounts.values(), key=lambda mount: len(mount.at.parts)):
        outer = holder(kept, mount.at)
        is_there = (
            outer is not None
            and outer.writable == mount.writable
            and outer.source / mount.at.relative_to(outer.at) == mount.source
        )
        if not is_there:
            kept[str(mount.at)] = mount
    return kept


def _missing(links: Mapping[Path, str], mounts: Mapping[str, Mount], empty: Iterable[Path]) -> Links:
    """The links that no mount brings with it; the folders in ``empty`` bring none."""
    made = []
    for place, target in sorted(links.items()):
        outer = holder(mounts, place)
        if outer is None or (outer.at in empty and outer.at != place):
            made.append((place, target))
    return tuple(made)


def _covered(view: View, mounts: Mapping[str, Mount]) -> Iterator[Mount]:
    """Where something masked would be seen inside of something shown."""
    found: dict[Path, Mount] = {}
    for path in view.masked:
        real = resolve_links(path).real
        for mount in mounts.values():
            if not _is_below(str(real), str(mount.source)) or not real.exists():
                continue
            at = mount.at / real.relative_to(mount.source)
            if holder(mounts, at) == mount:
                found[at] = Mount(real, at)
    yield from sorted(found.values(), key=lambda cover: len(cover.at.parts))


def _is_below(place: str, folder: str) -> bool:
    return place == folder or place.startswith(folder.rstrip("/") + "/")
