"""Programs under bubblewrap: an allow-list of mounts in an empty root; an unlisted path does not exist."""

import contextlib
import functools
import os
import shutil
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from goalseek.disk import own_folder, recreate_folder, remove
from goalseek.sandbox import landlock
from goalseek.sandbox.executables import resolve_links
from goalseek.sandbox.view import Launch, Mount, View, needs_owner_capabilities, read_setting, system_paths

_TERMINAL_INPUT = Path("/proc/sys/dev/tty/legacy_tiocsti")
_VAR_TMP = Path("/var/tmp")  # elsewhere it outlives a restart; here it is another name of the temporary folder
_SETTINGS = Path("/etc")
_LOADER_VARIABLES = ("LD_", "GLIBC_TUNABLES", "GCONV_PATH", "LOCPATH", "NLSPATH", "MALLOC_", "DYLD_")
Links = tuple[tuple[Path, str], ...]
_MOST_COPIED = 100  # a folder of more names stays a mount: Debian's ssl/certs has 291 links, and each takes 0.6 ms
_copied: dict[Path, dict[str, tuple[int, int] | None]] = {}


def launch_in_bubblewrap(view: View, arguments: Sequence[str], environment: Mapping[str, str], folder: Path) -> Launch:
    """``folder`` is on disk, in the tree. Raises FileNotFoundError without bwrap, OSError for a bad mount point."""
    words, mount_points, restriction = _before_the_command(view)
    empty = [mount.source for mount in (view.home, view.temporary) if not os.listdir(mount.source)]
    for outer, path, is_folder in mount_points:
        if outer not in empty:  # else bwrap makes it: it follows links, and there is none
            _make_mount_point(path, is_folder)
    variables = {**environment, "HOME": str(view.home.at), "TMPDIR": str(view.temporary.at)}
    # These say which code is loaded, and may name a folder that a candidate wrote in: not for bubblewrap itself.
    loaders = {name: value for name, value in variables.items() if name.startswith(_LOADER_VARIABLES)}
    settings = [word for name, value in loaders.items() for word in ("--setenv", name, value)]
    at = os.fspath(view.tree.at) + os.fspath(folder).removeprefix(os.fspath(view.tree.source))
    own_variables = {name: value for name, value in variables.items() if name not in loaders}
    command = (*words, *settings, "--chdir", at, "--", *arguments)
    return Launch(command, own_variables, Path("/"), is_cage=True, restriction=restriction)


@functools.lru_cache(maxsize=64)
def _before_the_command(view: View) -> tuple[list[str], list[tuple[Path, Path, bool]], tuple[str, ...]]:
    """The words up to the variables; (writable folder, path to make there, whether a folder) rows; the restriction."""
    launcher = find_bubblewrap()
    if launcher is None:
        raise FileNotFoundError("bwrap")
    mounts, links = _with_copied_settings(view, *lay_out(view))
    mount_points = []
    for mount in mounts.values():
        outer = _innermost_mount(mounts, mount.at.parent)
        if outer is not None and outer.writable:
            path = outer.source / mount.at.relative_to(outer.at)
            mount_points.append((outer.source, path, mount.source.is_dir()))

    command = [launcher]
    if needs_owner_capabilities(view):
        # In a user namespace root owns root's files only. CAP_DAC_READ_SEARCH is left out: it opens files by handle.
        command += ["--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"]
        command += [] if view.network else ["--unshare-net"]
        command += ["--cap-drop", "ALL", "--cap-add", "CAP_DAC_OVERRIDE", "--cap-add", "CAP_FOWNER"]
    else:
        command += ["--unshare-all", *(["--share-net"] if view.network else []), "--cap-drop", "ALL"]
    command.append("--die-with-parent")
    # In a person's terminal it could type (TIOCSTI), unless the kernel refuses that.
    if not (view.terminal == "own" or (view.terminal and read_setting(_TERMINAL_INPUT) == "0")):
        command.append("--new-session")

    command += ["--proc", "/proc", "--dev", "/dev"]
    if os.geteuid() == 0:  # the kernel's settings are root's even without capabilities: core_pattern is a way out
        command += ["--remount-ro", "/proc"]
    for device in view.devices:
        command += ["--dev-bind", str(device), str(device)]
    if view.devices:
        command += ["--ro-bind", "/sys", "/sys"]
    covers = _find_covers(view, mounts)
    covered_folders = [at for at, source in covers.items() if source.is_dir()]
    options = [
        *((mount.at, ("--bind" if mount.writable else "--ro-bind", str(mount.source))) for mount in mounts.values()),
        *((at, ("--tmpfs",) if at in covered_folders else ("--ro-bind", "/dev/null")) for at in covers),
    ]
    for at, words in sorted(options, key=lambda option: len(option[0].parts)):
        command += [*words, str(at)]
    for path, target in links:
        command += ["--symlink", target, str(path)]
    for at in (*covered_folders, Path("/")):
        command += ["--remount-ro", str(at)]
    return command, mount_points, landlock.SCOPE_ONLY if view.network and scopes_abstract_sockets() else ()


def find_bubblewrap() -> str | None:
    return shutil.which("bwrap")


def scopes_abstract_sockets() -> bool:
    """Whether a program with the machine's network is kept from abstract unix sockets."""
    path = find_bubblewrap()
    if path is None or os.stat(path).st_mode & stat.S_ISUID:
        return False  # a restricted process cannot gain rights from a set-user-id program
    return landlock.abi() >= landlock.SCOPES


def _make_mount_point(path: Path, is_folder: bool) -> None:
    """Raises OSError for a link or file in the way: a program may have put it there."""
    if path.is_symlink():
        remove(path)
    with own_folder(path.parent, "make") as parent, contextlib.suppress(FileExistsError):
        if is_folder:
            os.mkdir(path.name, 0o755, dir_fd=parent.descriptor)
        else:
            os.close(os.open(path.name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644, dir_fd=parent.descriptor))
    if path.is_dir() != is_folder:
        raise OSError(f"{path.name} is in the way of what is to be shown there")


def lay_out(view: View) -> tuple[Mapping[str, Mount], Links]:
    """The mounts by path seen, outer ones first, and the links to make; all are real paths."""
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
    return needed, _links_to_make(links, needed, empty)


def _with_copied_settings(view: View, mounts: Mapping[str, Mount], links: Links) -> tuple[Mapping[str, Mount], Links]:
    """One mount of copies for all in /etc: at each of two dozen bwrap reads the list of all mounts, 3 ms of CPU.

    Not if anything else is seen or hidden there, nor for a session of a person's: changes would not be seen in it.
    """
    system_mounts, system_links = _system_layout(view.network)
    inside = {at: mount.at for at, mount in mounts.items() if mount.at.is_relative_to(_SETTINGS)}
    links_inside = {link: link[0] for link in links if link[0].is_relative_to(_SETTINGS)}
    hidden = [path for path in view.masked if resolve_links(path).real.is_relative_to(_SETTINGS)]
    is_shown_more = inside.keys() - system_mounts.keys() or links_inside.keys() - {*system_links}
    if view.copies is None or view.terminal or hidden or is_shown_more:
        return mounts, links
    copies = view.copies / f"etc{'-network' if view.network else ''}"
    with contextlib.suppress(OSError):  # where they have no room or cannot be listed, the files themselves are mounted
        sizes = {at: len(os.listdir(at)) for at in inside if os.path.isdir(at)}
        large = {at: inside.pop(at) for at, size in sizes.items() if size > _MOST_COPIED}
        states = _copied.get(copies, {})
        if not states or any(_state(path) != state for path, state in states.items()):
            recreate_folder(copies)
            states = {}
            for path in (*inside.values(), *links_inside.values()):
                copy = copies / path.relative_to(_SETTINGS)
                copy.parent.mkdir(parents=True, exist_ok=True)
                _copy(str(path), str(copy), states)
            for at, path in large.items():
                (copies / path.relative_to(_SETTINGS)).mkdir(parents=True, exist_ok=True)
                states[at] = _state(at)  # with fewer names it would be copied
            _copied[copies] = {**states, str(copies): _state(str(copies))}
        others = {at: mount for at, mount in mounts.items() if at not in inside}
        others[str(_SETTINGS)] = Mount(copies, _SETTINGS)
        return others, tuple(link for link in links if link not in links_inside)
    return mounts, links


def _copy(source: str, copy: str, states: dict[str, tuple[int, int] | None]) -> None:
    """Copies links, folders and files that can be read; ``states`` gets the state of the latter two before."""
    if os.path.islink(source):
        os.symlink(os.readlink(source), copy)
        return
    states[source] = _state(source)
    with contextlib.suppress(PermissionError, FileNotFoundError):
        if os.path.isdir(source):
            os.mkdir(copy)
            for name in os.listdir(source):
                _copy(f"{source}/{name}", f"{copy}/{name}", states)
        elif os.path.isfile(source):
            shutil.copy2(source, copy)


def _state(path: str) -> tuple[int, int] | None:
    """Of a file or folder; another one once it has changed."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_ino, status.st_ctime_ns


def _innermost_mount(mounts: Mapping[str, Mount], path: Path) -> Mount | None:
    """``path`` and the keys of ``mounts`` are paths as a program sees them."""
    prefix = str(path)
    while prefix and prefix not in mounts:
        prefix = prefix.rpartition("/")[0]
    return mounts.get(prefix or "/")


@functools.cache
def _system_layout(network: bool) -> tuple[Mapping[str, Mount], Links]:
    chains = [resolve_links(path) for path in system_paths(network)]
    mounts = _without_duplicates({str(chain.real): Mount.in_place(chain.real) for chain in chains})
    return mounts, _links_to_make({link: target for chain in chains for link, target in chain.links}, mounts, ())


def _without_duplicates(mounts: Mapping[str, Mount]) -> dict[str, Mount]:
    """Drops mounts that another one shows anyway; outer ones first."""
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
    """The links that no mount contains; ``empty`` mounts contain none."""

    def is_missing(link: Path) -> bool:
        outer = _innermost_mount(mounts, link)
        return outer is None or (outer.at in empty and outer.at != link)

    return tuple((link, target) for link, target in sorted(links.items()) if is_missing(link))


def _find_covers(view: View, mounts: Mapping[str, Mount]) -> dict[Path, Path]:
    """Maps the places where a mount would show a masked path to its real path; outer ones first."""
    covers: dict[Path, Path] = {}
    sources = [(f"{mount.source}/".replace("//", "/"), mount) for mount in mounts.values()]
    for real in (resolve_links(path).real for path in view.masked):
        inside = f"{real}/"
        for source, mount in sources:
            if inside.startswith(source) and real.exists():
                at = mount.at / real.relative_to(mount.source)
                if _innermost_mount(mounts, at) == mount:
                    covers[at] = real
    return dict(sorted(covers.items(), key=lambda cover: len(cover[0].parts)))
