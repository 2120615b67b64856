"""The layout of a view as mounts: what is mounted where, which links are made, what is covered, in which order."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from goalseek.errors import GoalseekError
from goalseek.sandbox.executables import resolve_links
from goalseek.sandbox.view import Mount, View, system_paths
from goalseek.values import StopReason

VAR_TMP = Path("/var/tmp")  # elsewhere it outlives a restart; here it is another name of the temporary folder
Links = tuple[tuple[Path, str], ...]


class Layout(Struct, frozen=True):
    """What to mount in an empty root, what to cover in it, and which links to make. All paths are real ones."""

    mounts: tuple[Mount, ...]
    links: Links
    covers: tuple[Mount, ...]


def check_view(view: View) -> None:
    """Raises GoalseekError if something shown does not exist, or is masked."""
    masked = {resolve_links(path).real: path for path in view.masked}
    for shown in view.everything():
        if not shown.source.exists():
            raise GoalseekError(f"sandbox: there is no {shown.source}", "make it, or take it out", StopReason.SANDBOX)
        hidden = masked.get(resolve_links(shown.source).real)
        if hidden is not None:
            message = f"sandbox: {hidden} must not be seen, and is shown as {shown.at}"
            raise GoalseekError(message, "take it out of sandbox.read and scope.share", StopReason.SANDBOX)


def lay_out(view: View) -> Layout:
    """The mounts of a view; call ``check`` first."""
    system_mounts, system_links = _system_layout(view.network)
    mounts, links = dict(system_mounts), dict(system_links)
    var_tmp = Mount(view.temporary.source, VAR_TMP, writable=True)
    for shown in (var_tmp, *view.everything()):
        if shown.at.is_relative_to(view.tree.at):  # links of the user's checkout are not in the tree
            at = resolve_links(view.tree.at).real / shown.at.relative_to(view.tree.at)
        else:
            chain = resolve_links(shown.at)
            links.update(chain.links)
            at = chain.real
        mounts[str(at)] = Mount(resolve_links(shown.source).real, at, shown.writable)
    links.update(resolve_links(view.tree.at).links)
    needed = _without_duplicates(mounts)
    empty = tuple(resolve_links(path).real for path in (view.home.at, view.temporary.at, VAR_TMP))
    return Layout(tuple(needed.values()), _links_to_make(links, needed, empty), tuple(_find_covers(view, needed)))


def innermost_mount(mounts: Mapping[str, Mount], path: Path) -> Mount | None:
    """The innermost mount that ``path``, as a program sees it, lies in; None for none. ``mounts`` by path seen."""
    prefix = str(path)
    while prefix and prefix not in mounts:
        prefix = prefix.rpartition("/")[0]
    return mounts.get(prefix or "/")


@functools.cache
def _system_layout(network: bool) -> tuple[Mapping[str, Mount], Links]:
    """The mounts and links that every view has."""
    chains = [resolve_links(path) for path in system_paths(network)]
    mounts = _without_duplicates({str(chain.real): Mount.in_place(chain.real) for chain in chains})
    return mounts, _links_to_make({link: target for chain in chains for link, target in chain.links}, mounts, ())


def _without_duplicates(mounts: Mapping[str, Mount]) -> dict[str, Mount]:
    """The mounts without those that another one shows anyway, outer ones first."""
    distinct: dict[str, Mount] = {}
    for mount in sorted(mounts.values(), key=lambda mount: len(mount.at.parts)):
        outer = innermost_mount(distinct, mount.at)
        is_there = (
            outer is not None
            and outer.writable == mount.writable
            and outer.source / mount.at.relative_to(outer.at) == mount.source
        )
        if not is_there:
            distinct[str(mount.at)] = mount
    return distinct


def _links_to_make(links: Mapping[Path, str], mounts: Mapping[str, Mount], empty: Iterable[Path]) -> Links:
    """The links that no mount contains; those in ``empty`` contain none."""
    missing = []
    for link, target in sorted(links.items()):
        outer = innermost_mount(mounts, link)
        if outer is None or (outer.at in empty and outer.at != link):
            missing.append((link, target))
    return tuple(missing)


def _find_covers(view: View, mounts: Mapping[str, Mount]) -> Iterator[Mount]:
    """The mounts that cover masked paths inside of something shown."""
    covers: dict[Path, Mount] = {}
    for path in view.masked:
        real = resolve_links(path).real
        for mount in mounts.values():
            if not _is_below(str(real), str(mount.source)) or not real.exists():
                continue
            at = mount.at / real.relative_to(mount.source)
            if innermost_mount(mounts, at) == mount:
                covers[at] = Mount(real, at)
    yield from sorted(covers.values(), key=lambda cover: len(cover.at.parts))


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
