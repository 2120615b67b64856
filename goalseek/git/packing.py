"""Loose objects of the climb become packs, so that a long one stays small in the user's object store.

Packed is what our refs reach and nothing of the user's does; what a pack holds already is left where it is. Nothing is
pruned, no other pack is touched, and only those loose copies go that are in the pack just made. A pack is built and
checked in the tool's own folder and comes into the store under its final name, its index last; so a kill at any
moment leaves every object readable, and the next look finishes what was begun.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from goalseek.errors import GitFailed
from goalseek.files import write_durably
from goalseek.git.paths import c_quoted
from goalseek.git.repository import Refs, Repository
from goalseek.own_folders import clear, make_anew, remove

EVERY = 250
_OURS = "refs/goalseek/*"


@dataclass(frozen=True)
class Packed:
    """How far was packed: a cache.

    ``unfinished`` is a pack whose loose copies may still be there; ``failed`` is when it was last tried in vain.
    """

    seq: int = -1
    ledger: str = ""
    tip: str = ""
    unfinished: str = ""
    failed: int | None = None


def pack_when_due(repository: Repository, seq: int, tell: Callable[[str], None], every: int = EVERY) -> bool:
    """Packs where ``every`` records or more were written since the last time; whether it did.

    ``seq`` is the ledger's. Only the lock's holder may call it. What fails is told and tried again as much later.
    """
    packed = _remembered(repository)
    if packed.seq > seq:
        packed = Packed()
    is_due = bool(packed.unfinished) or seq - packed.seq >= every
    if not is_due or (packed.failed is not None and 0 <= seq - packed.failed < every):
        return False
    try:
        if packed.unfinished:
            packed = _finish(repository, packed)
        if seq - packed.seq >= every:
            _pack(repository, packed, seq)
        return True
    except (GitFailed, OSError) as error:
        packed = _remembered(repository)
        if not packed.unfinished:
            clear(_room(repository))
        _remember(repository, replace(packed, failed=seq))
        tell(f"the climb's loose objects stay loose for now: {error}")
        return False
    finally:
        repository.objects.close()  # they begin again, and know the new pack from the start


def _pack(repository: Repository, packed: Packed, seq: int) -> None:
    refs = repository.refs()
    if refs.ledger is None or refs.tip is None:
        return
    done = Packed(seq, refs.ledger, refs.tip)
    wanted = _loose_of_ours(repository, refs, packed)
    room = _room(repository)
    clear(room)
    if wanted:
        make_anew(room)
        (room / "info").mkdir()
        (room / "pack").mkdir()
        (room / "info" / "alternates").write_bytes(c_quoted(os.fsencode(repository.objects.store)) + b"\n")
        variables = {"GIT_OBJECT_DIRECTORY": str(room)}
        options = ("-q", "--incremental", "--non-empty", "--threads=1")
        names = b"".join(line + b"\n" for line in wanted)
        made = repository.objects.git(
            "pack-objects", *options, str(room / "pack/pack"), stdin=names, variables=variables
        )
        if made:
            name = f"pack-{made.decode().strip()}"
            repository.objects.git("verify-pack", str(room / "pack" / f"{name}.idx"), variables=variables)
            for path in (room / "pack").iterdir():
                _sync(path)
            done = replace(done, unfinished=name)
    _remember(repository, done)
    _finish(repository, done)


def _finish(repository: Repository, packed: Packed) -> Packed:
    """Brings the pack that was made into the store, and removes the loose copies of what is in it."""
    room, store = _room(repository), repository.objects.store
    done = replace(packed, unfinished="", failed=None)
    if packed.unfinished:
        found = sorted((room / "pack").glob(f"{packed.unfinished}.*"), key=lambda path: path.suffix == ".idx")
        repository.sharing.make_folder(store / "pack")
        for path in found:
            _bring(path, store / "pack" / path.name)
        _sync(store / "pack")
        index = store / "pack" / f"{packed.unfinished}.idx"
        if index.exists() and index.with_suffix(".pack").exists():
            listing = repository.objects.git(
                "show-index", f"--object-format={repository.location.object_format}", stdin=index.read_bytes()
            )
            for line in listing.decode().splitlines():
                name = line.split(" ")[1]
                _loose(repository, name).unlink(missing_ok=True)
        _remember(repository, done)
    clear(room)
    return done


def _loose_of_ours(repository: Repository, refs: Refs, packed: Packed) -> list[bytes]:
    """The loose objects that our refs reach and nothing of the user's does, each with the path it was met at."""
    walk = ("rev-list", "--objects", "--unpacked", "--missing=allow-any", "--ignore-missing", "--stdin")
    users = tuple(f"--exclude={ref}" for ref in (_OURS, *_branches(repository)))
    moved = _reflogs(repository)
    # What a packed commit reaches is packed too, so this meets no more of the user's history than its loose end.
    listing = repository.git(*walk, "--no-object-names", "--indexed-objects", *users, "--all", stdin=_lines(moved))
    theirs = set(listing.split())
    starts = [refs.ledger or "", refs.tip or ""]
    ends = [f"^{commit}" for commit in (packed.ledger, packed.tip, *moved) if commit]
    found = repository.git(*walk, "--not", *users, "--all", stdin=_lines([*starts, *ends])).splitlines()
    ours = ((line.split(b" ", 1)[0], line) for line in found)
    return [line for name, line in ours if name not in theirs and _loose(repository, name.decode()).exists()]


def _branches(repository: Repository) -> list[str]:
    """The branches that show the climbs of this repository."""
    listing = repository.git("for-each-ref", "--format=%(refname)", "refs/goalseek/*/ledger").decode().split()
    return [f"refs/heads/goalseek/{ref.split('/')[2]}" for ref in listing]


def _reflogs(repository: Repository) -> list[str]:
    """Every commit that the user's reflogs name, the stash's among them."""
    common = repository.location.common_dir
    own = [common / "logs" / _OURS.removesuffix("/*"), *(common / "logs" / ref for ref in _branches(repository))]
    names: dict[str, None] = {}
    for top in (common / "logs", *common.glob("worktrees/*/logs")):
        for folder, _, files in os.walk(top):
            for path in (Path(folder, name) for name in files):
                if any(path.is_relative_to(place) for place in own):
                    continue
                for line in path.read_bytes().splitlines():
                    names.update(dict.fromkeys(os.fsdecode(line).split(" ", 2)[:2]))
    width = len(repository.objects.zero)
    return [name for name in names if len(name) == width and name != repository.objects.zero]


def _bring(path: Path, target: Path) -> None:
    """Brings a file to its final name in one step, of the group that files there are, also onto another file system."""
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
        shutil.copy2(path, temporary)
        _sync(temporary)
        temporary.rename(target)
        remove(path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _loose(repository: Repository, name: str) -> Path:
    return repository.objects.store / name[:2] / name[2:]


def _room(repository: Repository) -> Path:
    return repository.own / "packing"


def _remembered(repository: Repository) -> Packed:
    try:
        return Packed(**json.loads((repository.own / "packed.json").read_bytes()))
    except (OSError, ValueError, TypeError):
        return Packed()


def _remember(repository: Repository, packed: Packed) -> None:
    write_durably(repository.own / "packed.json", json.dumps(asdict(packed)).encode() + b"\n")


def _lines(names: list[str]) -> bytes:
    return "".join(f"{name}\n" for name in names).encode()
