"""Programs under bubblewrap: an allow-list of mounts in an empty root, so that what is not listed does not exist."""

from __future__ import annotations

import functools
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from goalseek.own_folders import parent_of, remove
from goalseek.sandbox import landlock
from goalseek.sandbox.executables import resolve_links
from goalseek.sandbox.view import (
    Launch,
    Mount,
    View,
    needs_owner_capabilities,
    read_setting,
    split_environment,
    system_paths,
)

_TERMINAL_INPUT = Path("/proc/sys/dev/tty/legacy_tiocsti")
_VAR_TMP = Path("/var/tmp")  # elsewhere it outlives a restart; here it is another name of the temporary folder
Links = tuple[tuple[Path, str], ...]


def launch_in_bubblewrap(view: View, arguments: Sequence[str], environment: Mapping[str, str], folder: Path) -> Launch:
    """How to start a program under bubblewrap; ``folder`` is a path on disk inside something shown.

    Makes the empty folders in the tree that shared folders are mounted on. HOME and TMPDIR become the view's. Raises
    FileNotFoundError without bwrap, OSError if a mount point cannot be made.
    """
    launcher = find_bubblewrap()
    if launcher is None:
        raise FileNotFoundError("bwrap")
    layout = lay_out(view)
    _make_mount_points(layout)
    variables = {**environment, "HOME": str(view.home.at), "TMPDIR": str(view.temporary.at)}
    launcher_variables, program_variables = split_environment(variables)
    command = [launcher, *_isolation_options(view), *_mount_options(view, layout)]
    for name, value in program_variables.items():
        command += ["--setenv", name, value]
    command += ["--chdir", str(view.seen_at(folder)), "--", *arguments]
    restriction = landlock.SCOPE_ONLY if view.network and scopes_abstract_sockets() else ()
    return Launch(tuple(command), launcher_variables, Path("/"), is_cage=True, restriction=restriction)


def find_bubblewrap() -> str | None:
    """The path of bubblewrap; None if it is not installed."""
    return shutil.which("bwrap")


def scopes_abstract_sockets() -> bool:
    """Whether a program that has the machine's network is kept from abstract unix sockets."""
    path = find_bubblewrap()
    if path is None or os.stat(path).st_mode & stat.S_ISUID:
        return False  # a restricted process cannot start a set-user-id program as what it is
    return landlock.abi() >= landlock.SCOPES


def _isolation_options(view: View) -> Iterator[str]:
    if needs_owner_capabilities(view):
        # In a user namespace root owns root's files only. CAP_DAC_READ_SEARCH is left out: it opens files by handle.
        yield from ("--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try")
        if not view.network:
            yield "--unshare-net"
        yield from ("--cap-drop", "ALL", "--cap-add", "CAP_DAC_OVERRIDE", "--cap-add", "CAP_FOWNER")
    else:
        yield "--unshare-all"
        if view.network:
            yield "--share-net"
        yield from ("--cap-drop", "ALL")
    yield "--die-with-parent"
    if not (view.terminal and read_setting(_TERMINAL_INPUT) == "0"):  # or it could type into the terminal (TIOCSTI)
        yield "--new-session"


def _mount_options(view: View, layout: Layout) -> Iterator[str]:
    yield from ("--proc", "/proc", "--dev", "/dev")
    if os.geteuid() == 0:  # the kernel's settings are root's even without capabilities: core_pattern is a way out
        yield from ("--remount-ro", "/proc")
    for device in view.devices:
        yield from ("--dev-bind", str(device), str(device))
    if view.devices:
        yield from ("--ro-bind", "/sys", "/sys")
    folders = [cover for cover in layout.covers if cover.source.is_dir()]
    files = [cover for cover in layout.covers if cover not in folders]
    options = [
        *((mount.at, ("--bind" if mount.writable else "--ro-bind", str(mount.source))) for mount in layout.mounts),
        *((cover.at, ("--tmpfs",)) for cover in folders),
        *((cover.at, ("--ro-bind", "/dev/null")) for cover in files),
    ]
    for at, words in sorted(options, key=lambda option: len(option[0].parts)):
        yield from (*words, str(at))
    for path, target in layout.links:
        yield from ("--symlink", target, str(path))
    for folder in (*(cover.at for cover in folders), Path("/")):
        yield from ("--remount-ro", str(folder))


def _make_mount_points(layout: Layout) -> None:
    """Makes the mount points that lie inside other writable mounts, through real folders only.

    A link at a mount point is removed. Raises OSError for a link on the way to one, or for a file where a folder is
    needed or the reverse: a program that works in that tree may have made it.
    """
    mounts = {str(mount.at): mount for mount in layout.mounts}
    for mount in layout.mounts:
        outer = _innermost_mount(mounts, mount.at.parent)
        if outer is not None and outer.writable:
            _make_mount_point(outer.source / mount.at.relative_to(outer.at), mount.source.is_dir())


def _make_mount_point(path: Path, is_folder: bool) -> None:
    if path.is_symlink():
        remove(path)
    with parent_of(path, "make") as (folder, name):
        try:
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        except FileNotFoundError:
            if is_folder:
                os.mkdir(name, 0o755, dir_fd=folder)
            else:
                os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644, dir_fd=folder))
            return
        if stat.S_ISDIR(mode) != is_folder:
            raise OSError(f"{name} is in the way of what is to be shown there")


class Layout(Struct, frozen=True):
    """What to mount in an empty root, what to cover in it, and which links to make. All paths are real ones."""

    mounts: tuple[Mount, ...]
    links: Links
    covers: tuple[Mount, ...]


def lay_out(view: View) -> Layout:
    """The mounts of a view, outer ones first."""
    system_mounts, system_links = _system_layout(view.network)
    mounts, links = dict(system_mounts), dict(system_links)
    tree = resolve_links(view.tree.at)
    for shown in (Mount(view.temporary.source, _VAR_TMP, writable=True), *view.everything()):
        if shown.at.is_relative_to(view.tree.at):  # links of the user's checkout are not in the tree
            at = tree.real / shown.at.relative_to(view.tree.at)
        else:
            chain = resolve_links(shown.at)
            links.update(chain.links)
            at = chain.real
        mounts[str(at)] = Mount(resolve_links(shown.source).real, at, shown.writable)
    links.update(tree.links)
    needed = _without_duplicates(mounts)
    empty = tuple(resolve_links(path).real for path in (view.home.at, view.temporary.at, _VAR_TMP))
    return Layout(tuple(needed.values()), _links_to_make(links, needed, empty), _find_covers(view, needed))


def _innermost_mount(mounts: Mapping[str, Mount], path: Path) -> Mount | None:
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
        outer = _innermost_mount(distinct, mount.at)
        if (
            outer is None
            or outer.writable != mount.writable
            or outer.source / mount.at.relative_to(outer.at) != mount.source
        ):
            distinct[str(mount.at)] = mount
    return distinct


def _links_to_make(links: Mapping[Path, str], mounts: Mapping[str, Mount], empty: Iterable[Path]) -> Links:
    """The links that no mount contains; those in ``empty`` contain none."""

    def is_missing(link: Path) -> bool:
        outer = _innermost_mount(mounts, link)
        return outer is None or (outer.at in empty and outer.at != link)

    return tuple((link, target) for link, target in sorted(links.items()) if is_missing(link))


def _find_covers(view: View, mounts: Mapping[str, Mount]) -> tuple[Mount, ...]:
    """The mounts that cover masked paths inside of something shown."""
    covers: dict[Path, Mount] = {}
    for real in (resolve_links(path).real for path in view.masked):
        for mount in mounts.values():
            if f"{real}/".startswith(f"{str(mount.source).rstrip('/')}/") and real.exists():
                at = mount.at / real.relative_to(mount.source)
                if _innermost_mount(mounts, at) == mount:
                    covers[at] = Mount(real, at)
    return tuple(sorted(covers.values(), key=lambda cover: len(cover.at.parts)))
