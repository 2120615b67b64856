"""Packing the climb's loose objects, so that a long climb stays small in the user's object store.

Packed is what our refs reach and none of the user's does, as far as the last pack does not hold it. Nothing is pruned,
no other pack is touched, and only those loose copies are removed that are in the new pack. A kill at any moment leaves
every object readable, and the next call packs the same again.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, structs

from goalseek.errors import GitFailed
from goalseek.files import sync, write_atomic
from goalseek.git.repository import Refs, Repository
from goalseek.own_folders import remove_if_exists
from goalseek.values import from_line, to_line

PACK_EVERY = 250
_OWN_REFS = "refs/goalseek/*"


class PackingState(Struct, frozen=True):
    """The record at which objects were last packed, or packing failed, and the ledger and tip up to which they are."""

    seq: int = -1
    ledger: str = ""
    tip: str = ""


def pack_when_due(repository: Repository, seq: int, warn: Callable[[str], None], every: int = PACK_EVERY) -> bool:
    """Packs where ``every`` records or more were written since the last time; gives whether it did.

    ``seq`` is the ledger's. Only the lock's holder may call it. After a failure it warns, and waits for as many records
    again.
    """
    state_path = repository.own / "packed.json"
    try:
        state = from_line(PackingState, state_path.read_bytes())
    except (OSError, ValueError):
        state = PackingState()
    if state.seq > seq:
        state = PackingState()
    refs = repository.refs() if seq - state.seq >= every else None
    if refs is None or refs.ledger is None or refs.tip is None:
        return False
    failure = ""
    try:
        _pack(repository, _list_loose_objects(repository, refs, state))
        state = PackingState(seq, refs.ledger, refs.tip)
    except (GitFailed, OSError) as error:
        failure = str(error)
        warn(f"the climb's loose objects stay loose for now: {failure}")
    finally:
        repository.objects.close()  # those that start next know the new pack
    content = to_line(structs.replace(state, seq=seq)) + "\n"
    write_atomic(state_path, content, durable=True)
    return not failure


def _pack(repository: Repository, lines: list[bytes]) -> None:
    """Packs loose objects, each named by a line of ``rev-list --objects``, and removes their loose copies."""
    objects = repository.objects
    recent, folder = objects.recent, objects.store / "pack"
    if not lines or recent is None:
        return
    remove_if_exists(recent.folder / "pack")  # half a pack of a git that was killed
    listing = b"".join(line + b"\n" for line in lines)
    # The pack grows among the recent objects, and is moved into the store when it is whole, its index last. Where a
    # kill came while loose copies were removed, the rest of them is in that pack already.
    options = ("-q", "--incremental", "--non-empty", "--threads=1")
    if pack_hash := objects.git("pack-objects", *options, str(folder / "pack"), stdin=listing).decode().strip():
        objects.git("verify-pack", str(folder / f"pack-{pack_hash}.idx"))
        sync(folder)
    for name in (line.split(b" ", 1)[0].decode() for line in lines):
        for store in (objects.store, recent.folder):
            (store / name[:2] / name[2:]).unlink(missing_ok=True)


def _list_loose_objects(repository: Repository, refs: Refs, state: PackingState) -> list[bytes]:
    """The loose objects that our refs reach and none of the user's does, each line with the path that git names."""
    walk = ("rev-list", "--objects", "--missing=allow-any", "--ignore-missing", "--stdin")
    climbs = repository.git("for-each-ref", "--format=%(refname:lstrip=2)", "refs/goalseek/*/ledger").decode().split()
    branches = {repository.branch_ref, *(f"refs/heads/goalseek/{ref.removesuffix('/ledger')}" for ref in climbs)}
    users = (*(f"--exclude={ref}" for ref in (_OWN_REFS, *branches)), "--all")
    reflogs = repository.git("rev-list", "-g", *users).decode().split()
    # What a packed commit reaches is packed too, so this meets no more of the user's history than its loose end.
    listing = repository.git(
        *walk, "--unpacked", "--no-object-names", "--indexed-objects", *users, stdin=_join_lines(reflogs)
    )
    user_objects = set(listing.split())
    ends = [f"^{commit}" for commit in (state.ledger, state.tip, *reflogs) if commit]
    starts = [refs.ledger or "", refs.tip or ""]
    lines = repository.git(*walk, "--not", *users, stdin=_join_lines([*starts, *ends])).splitlines()
    own_lines = (line for line in lines if line.split(b" ", 1)[0] not in user_objects)
    store, width = repository.objects.store, len(repository.objects.zero)
    return [line for line in own_lines if (store / line[:2].decode() / line[2:width].decode()).exists()]


def _join_lines(names: list[str]) -> bytes:
    return "".join(f"{name}\n" for name in names).encode()
