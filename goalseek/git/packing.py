"""Packing the climb's loose objects, so that a long climb stays small in the user's object store.

Nothing is pruned, no other pack is touched, and only loose copies of packed objects are removed. A kill at any moment
leaves every object readable, and the next call packs the same again.
"""

from collections.abc import Callable

from msgspec import Struct, structs

from goalseek.disk import read_stored, remove_if_exists, sync, write_atomic
from goalseek.errors import GitFailed
from goalseek.git.repository import Repository
from goalseek.values import to_line

PACK_EVERY = 250
_OWN_REFS = "refs/goalseek/*"


class PackingState(Struct, frozen=True):
    """``seq`` is the record at which objects were last packed, or that failed; ``ledger`` and ``tip`` are how far."""

    seq: int = -1
    ledger: str = ""
    tip: str = ""


def pack_when_due(repository: Repository, seq: int, warn: Callable[[str], None], every: int = PACK_EVERY) -> bool:
    """Pack if ``every`` records were written since the last time; returns whether it did. Needs the project's lock.

    ``seq`` is the ledger's. After a failure it warns, and waits for as many records again.
    """
    state_path = repository.own / "packed.json"
    state = read_stored(PackingState, state_path) or PackingState()
    if state.seq > seq:
        state = PackingState()
    refs = repository.refs() if seq - state.seq >= every else None
    if refs is None or refs.ledger is None or refs.tip is None:
        return False
    failure = ""
    try:
        _pack(repository, [refs.ledger, refs.tip], [state.ledger, state.tip])
        state = PackingState(seq, refs.ledger, refs.tip)
    except (GitFailed, OSError) as error:
        failure = str(error)
        warn(f"goalseek could not pack the climb's objects: {failure}")
    finally:
        repository.objects.close()  # those that start next know the new pack
    content = to_line(structs.replace(state, seq=seq)) + "\n"
    write_atomic(state_path, content, durable=True)
    return not failure


def _pack(repository: Repository, starts: list[str], packed: list[str]) -> None:
    """Pack loose objects that ``starts`` reach, and neither ``packed`` nor the user's refs, and remove these."""
    objects = repository.objects
    recent, store, folder = objects.recent, objects.store, objects.store / "pack"
    assert recent
    walk = ("rev-list", "--objects", "--missing=allow-any", "--ignore-missing", "--stdin")
    climbs = repository.git("for-each-ref", "--format=%(refname:lstrip=2)", "refs/goalseek/*/ledger").decode().split()
    branches = {repository.branch_ref, *(f"refs/heads/goalseek/{ref.removesuffix('/ledger')}" for ref in climbs)}
    users = (*(f"--exclude={ref}" for ref in (_OWN_REFS, *branches)), "--all")
    reflogs = repository.git("rev-list", "-g", *users).decode().split()
    # What a packed commit reaches is packed too, so this meets no more of the user's history than its loose end.
    loose_ends = (*walk, "--unpacked", "--no-object-names", "--indexed-objects", *users)
    user_objects = set(repository.git(*loose_ends, stdin=_join_lines(reflogs)).split())
    ends = [f"^{commit}" for commit in (*packed, *reflogs) if commit]
    paths_by_line = {  # a line has the object's hash, and the path that git names
        line: f"{line[:2].decode()}/{line.split(b' ', 1)[0][2:].decode()}"
        for line in repository.git(*walk, "--not", *users, stdin=_join_lines([*starts, *ends])).splitlines()
        if line.split(b" ", 1)[0] not in user_objects
    }
    loose = {line: path for line, path in paths_by_line.items() if (store / path).exists()}
    if not loose:
        return
    remove_if_exists(recent / "pack")  # half a pack of a git that was killed
    # The pack grows among the recent objects, and is moved into the store when it is whole, its index last. Where a
    # kill came while loose copies were removed, the rest of them is in that pack already.
    options = ("-q", "--incremental", "--non-empty", "--threads=1")
    listing = b"".join(line + b"\n" for line in loose)
    if pack_hash := objects.git("pack-objects", *options, str(folder / "pack"), stdin=listing).decode().strip():
        objects.git("verify-pack", str(folder / f"pack-{pack_hash}.idx"))
        sync(folder)
    for path in loose.values():
        for place in (store, recent):
            (place / path).unlink(missing_ok=True)


def _join_lines(names: list[str]) -> bytes:
    return "".join(f"{name}\n" for name in names).encode()
