"""Packing the climb's loose objects, so that a long climb stays small in the user's object store.

Packed is what our refs reach and none of the user's does, unless a pack holds it already. Nothing is pruned, no other
pack is touched, and only those loose copies are removed that are in the new pack. A pack is built and checked in the
tool's own folder and moved into the store under its final name, its index last: a kill at any moment leaves every
object readable, and the next call finishes the work.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct, structs

from goalseek.errors import GitFailed
from goalseek.files import copy_atomic, sync, write_atomic
from goalseek.git.paths import quote_path_bytes
from goalseek.git.repository import Refs, Repository
from goalseek.own_folders import recreate_folder, remove, remove_if_exists
from goalseek.values import from_line, to_line

PACK_EVERY = 250
_OWN_REFS = "refs/goalseek/*"


class PackingState(Struct, frozen=True):
    """Up to which record, ledger and tip objects are packed: a cache.

    ``unfinished`` is a pack whose loose copies may still be there; ``failed`` is the ``seq`` of the last failure.
    """

    seq: int = -1
    ledger: str = ""
    tip: str = ""
    unfinished: str = ""
    failed: int | None = None


def pack_when_due(repository: Repository, seq: int, warn: Callable[[str], None], every: int = PACK_EVERY) -> bool:
    """Packs where ``every`` records or more were written since the last time; gives whether it did.

    ``seq`` is the ledger's. Only the lock's holder may call it. After a failure it warns, and waits for as many records
    again.
    """
    state = _load_state(repository)
    if state.seq > seq:
        state = PackingState()
    is_due = bool(state.unfinished) or seq - state.seq >= every
    if not is_due or (state.failed is not None and 0 <= seq - state.failed < every):
        return False
    try:
        if state.unfinished:
            state = _finish(repository, state)
        if seq - state.seq >= every:
            _pack(repository, state, seq)
        return True
    except (GitFailed, OSError) as error:
        state = _load_state(repository)
        if not state.unfinished:
            remove_if_exists(_packing_folder(repository))
        _save_state(repository, structs.replace(state, failed=seq))
        warn(f"the climb's loose objects stay loose for now: {error}")
        return False
    finally:
        repository.objects.close()  # those that start next know the new pack


def _pack(repository: Repository, state: PackingState, seq: int) -> None:
    refs = repository.refs()
    if refs.ledger is None or refs.tip is None:
        return
    new_state = PackingState(seq, refs.ledger, refs.tip)
    objects = _list_loose_objects(repository, refs, state)
    folder = _packing_folder(repository)
    remove_if_exists(folder)
    if objects:
        recreate_folder(folder)
        (folder / "info").mkdir()
        (folder / "pack").mkdir()
        (folder / "info" / "alternates").write_bytes(quote_path_bytes(os.fsencode(repository.objects.store)) + b"\n")
        variables = {"GIT_OBJECT_DIRECTORY": str(folder)}
        options = ("-q", "--incremental", "--non-empty", "--threads=1")
        names = b"".join(line + b"\n" for line in objects)
        pack_hash = repository.objects.git(
            "pack-objects", *options, str(folder / "pack/pack"), stdin=names, variables=variables
        )
        if pack_hash:
            name = f"pack-{pack_hash.decode().strip()}"
            repository.objects.git("verify-pack", str(folder / "pack" / f"{name}.idx"), variables=variables)
            for path in (folder / "pack").iterdir():
                sync(path)
            new_state = structs.replace(new_state, unfinished=name)
    _save_state(repository, new_state)
    _finish(repository, new_state)


def _finish(repository: Repository, state: PackingState) -> PackingState:
    """Moves the new pack into the store, and removes the loose copies of its objects."""
    folder, store = _packing_folder(repository), repository.objects.store
    new_state = structs.replace(state, unfinished="", failed=None)
    if state.unfinished:
        paths = sorted((folder / "pack").glob(f"{state.unfinished}.*"), key=lambda path: path.suffix == ".idx")
        repository.sharing.make_folder(store / "pack")
        for path in paths:
            _move_into_store(path, store / "pack" / path.name)
        sync(store / "pack")
        index = store / "pack" / f"{state.unfinished}.idx"
        if index.exists() and index.with_suffix(".pack").exists():
            listing = repository.objects.git(
                "show-index", f"--object-format={repository.location.object_format}", stdin=index.read_bytes()
            )
            for line in listing.decode().splitlines():
                name = line.split(" ")[1]
                _loose_path(repository, name).unlink(missing_ok=True)
        _save_state(repository, new_state)
    remove_if_exists(folder)
    return new_state


def _list_loose_objects(repository: Repository, refs: Refs, state: PackingState) -> list[bytes]:
    """The loose objects that our refs reach and none of the user's does, each line with the path that git names."""
    walk = ("rev-list", "--objects", "--unpacked", "--missing=allow-any", "--ignore-missing", "--stdin")
    excludes = tuple(f"--exclude={ref}" for ref in (_OWN_REFS, *_branches(repository)))
    reflog_commits = _reflogs(repository)
    # What a packed commit reaches is packed too, so this meets no more of the user's history than its loose end.
    listing = repository.git(
        *walk, "--no-object-names", "--indexed-objects", *excludes, "--all", stdin=_join_lines(reflog_commits)
    )
    user_objects = set(listing.split())
    starts = [refs.ledger or "", refs.tip or ""]
    ends = [f"^{commit}" for commit in (state.ledger, state.tip, *reflog_commits) if commit]
    reachable = repository.git(*walk, "--not", *excludes, "--all", stdin=_join_lines([*starts, *ends])).splitlines()
    objects = ((line.split(b" ", 1)[0], line) for line in reachable)
    return [
        line for name, line in objects if name not in user_objects and _loose_path(repository, name.decode()).exists()
    ]


def _branches(repository: Repository) -> list[str]:
    """The branches that show the climbs of this repository; of another climb, the one with the usual prefix."""
    listing = repository.git("for-each-ref", "--format=%(refname)", "refs/goalseek/*/ledger").decode().split()
    return [repository.branch_ref, *(f"refs/heads/goalseek/{ref.split('/')[2]}" for ref in listing)]


def _reflogs(repository: Repository) -> list[str]:
    """Every commit that the user's reflogs name, the stash's among them."""
    common = repository.location.common_dir
    own_folders = [
        common / "logs" / _OWN_REFS.removesuffix("/*"),
        *(common / "logs" / ref for ref in _branches(repository)),
    ]
    names: dict[str, None] = {}
    for top in (common / "logs", *common.glob("worktrees/*/logs")):
        for folder, _, files in os.walk(top):
            for path in (Path(folder, name) for name in files):
                if any(path.is_relative_to(own_folder) for own_folder in own_folders):
                    continue
                for line in path.read_bytes().splitlines():
                    names.update(dict.fromkeys(os.fsdecode(line).split(" ", 2)[:2]))
    width = len(repository.objects.zero)
    return [name for name in names if len(name) == width and name != repository.objects.zero]


def _move_into_store(path: Path, target: Path) -> None:
    """Moves a file to its final name in one step, with the group of its new folder, also onto another file system."""
    try:
        folder = target.parent.stat()
        if folder.st_mode & stat.S_ISGID and path.stat().st_gid != folder.st_gid:
            raise OSError(errno.EXDEV, "a file that is made there has another group")
        path.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        temporary = target.with_name(f"tmp_{target.name}")
        temporary.unlink(missing_ok=True)
        copy_atomic(path, target, durable=True, temporary=temporary)
        remove(path)


def _loose_path(repository: Repository, name: str) -> Path:
    return repository.objects.store / name[:2] / name[2:]


def _packing_folder(repository: Repository) -> Path:
    return repository.own / "packing"


def _load_state(repository: Repository) -> PackingState:
    try:
        return from_line(PackingState, (repository.own / "packed.json").read_bytes())
    except (OSError, ValueError):
        return PackingState()


def _save_state(repository: Repository, state: PackingState) -> None:
    write_atomic(repository.own / "packed.json", to_line(state) + "\n", durable=True)


def _join_lines(names: list[str]) -> bytes:
    return "".join(f"{name}\n" for name in names).encode()
