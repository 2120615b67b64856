"""A claim as one tar, which is read as a stranger's: a receipt, its signature, and a pack of the commits."""

import functools
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Literal

from msgspec import Struct

from goalseek.errors import UNFIT, GitFailed, GoalseekError
from goalseek.git.command import git
from goalseek.git.objects import Objects
from goalseek.git.paths import FOLDER, looks_like_git, quote_path
from goalseek.records import SettleRecord

RECEIPT, PACK = "receipt.json", "objects.pack"
_MEBI = 2**20
_MOST_BYTES = {RECEIPT: 64 * _MEBI, f"{RECEIPT}.sig": _MEBI, f"{RECEIPT}.asc": _MEBI, PACK: 4096 * _MEBI}
_MOST_UNPACKED = 16 * 1024 * _MEBI  # bytes of one tree
_MOST_FILES = 1_000_000  # of one tree
_OBJECT_MOST = "2g"  # memory for one object of the pack
_CHUNK = _MEBI


class Receipt(Struct, frozen=True, kw_only=True):
    """The claim: the settled gain, and all that somebody else needs to measure it again.

    Commits are ``baseline``, ``best``, ``tip`` and ``ledger``, and ``pinned``, whose verifier measured; of ``trees``
    that of ``baseline`` is as it was measured. ``files`` are the verifier's, as "mode hash" by path; ``hidden_from``
    has hashes by path, of files outside the repository. ``own`` are goalseek's own files, on which no number depends,
    and which nobody gets. ``manifest`` is TOML: the tables that a measurement needs. ``seeds`` are those of the pairs.

    ``sees`` says which files each command finds; ``open_keeps`` counts the kept changes whose authors could read the
    hidden files. ``host``, ``sandbox`` and ``versions`` are of the settling; ``tools`` are programs that the verifier's
    commands name.
    """

    format: Literal[1] = 1
    project: str
    folder: str
    made_at: str
    hidden: Literal["digest", "include"]
    object_format: Literal["sha1", "sha256"]
    commits: dict[str, str]
    trees: dict[str, str]
    ruler: str
    keys: dict[str, Any]
    files: dict[str, str]
    hidden_from: dict[str, str]
    own: tuple[str, ...]
    manifest: str
    settled: SettleRecord
    seeds: tuple[tuple[int, int], ...]
    tries: int
    kept: int
    sees: dict[str, str]
    open_keeps: int
    host: str
    sandbox: str
    versions: dict[str, str]
    tools: dict[str, str]


class Refused(GoalseekError):
    def __init__(self, why: str, hint: str = "ask for the claim once more") -> None:
        super().__init__(f"the claim is refused: {why}", hint, UNFIT)


def write_tar(file: BinaryIO, members: Mapping[str, Path]) -> None:
    with tarfile.open(fileobj=file, mode="w|", format=tarfile.USTAR_FORMAT) as tar:
        for name, path in members.items():
            head = tarfile.TarInfo(name)
            head.size = path.stat().st_size
            if head.size > _MOST_BYTES[name]:
                raise GoalseekError(f"{name} would have {head.size} bytes, more than a claim may", "", UNFIT)
            with path.open("rb") as content:
                tar.addfile(head, content)


def read_tar(path: Path, folder: Path) -> None:
    """Write the members of a claim into the folder. Raises GoalseekError for any other member, before it is written.

    Headers are read one by one: ``tarfile`` would read a long name of a gigabyte into memory.
    """
    with path.open("rb") as file:
        while (block := file.read(tarfile.BLOCKSIZE)).strip(b"\0"):
            try:
                head = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
            except tarfile.HeaderError:
                raise Refused("it is no tar, or a damaged one") from None
            name, size = quote_path(head.name), head.size
            if head.name not in _MOST_BYTES:
                raise Refused(f"the tar has {name}, which is no part of a claim")
            if head.type != tarfile.REGTYPE:
                raise Refused(f"{name} is no regular file")
            if not 0 <= size <= _MOST_BYTES[head.name]:
                raise Refused(f"{name} would have {size} bytes; {_MOST_BYTES[head.name]} are allowed")
            if (folder / head.name).exists():
                raise Refused(f"the tar has {name} twice")
            with (folder / head.name).open("xb") as member:
                for left in range(size, 0, -_CHUNK):
                    member.write(file.read(min(left, _CHUNK)))
                if member.tell() != size:
                    raise Refused(f"the tar ends within {name}")
            file.seek(-size % tarfile.BLOCKSIZE, os.SEEK_CUR)
    if missing := [name for name in (RECEIPT, PACK) if not (folder / name).exists()]:
        raise Refused(f"the tar lacks {missing[0]}")


def index_pack(pack: Path, git_dir: Path) -> None:
    """Make the objects readable, which stay where they are. Raises GoalseekError for an object that fsck refuses."""
    try:
        limit = {"GIT_ALLOC_LIMIT": _OBJECT_MOST}
        git("index-pack", "--fsck-objects", str(pack), git_dir=git_dir, folder=git_dir, variables=limit)
    except GitFailed as error:
        raise Refused(f"git does not accept its pack: {error.stderr}") from None


def refuse_trees(objects: Objects) -> None:
    """Raises GoalseekError if any tree names git's folder, or would fill memory or disk; each is looked at once.

    RecursionError for one that is too deep.
    """
    listing = objects.git("cat-file", "--batch-all-objects", "--batch-check=%(objecttype) %(objectname) %(objectsize)")
    rows = [line.split(" ") for line in listing.decode().splitlines()]
    sizes = {name: int(size) for kind, name, size in rows if kind == "blob"}

    @functools.cache
    def measure(tree: str) -> tuple[int, int]:
        """Files and bytes."""
        files = size = 0
        for name, entry in objects.tree(tree).items():
            if looks_like_git(name) or name in (".", ".."):
                raise Refused(f"the tree {tree} has {quote_path(name)}")
            more = measure(entry.blob) if entry.mode == FOLDER else (1, sizes.get(entry.blob, 0))
            files, size = files + more[0], size + more[1]
        if files > _MOST_FILES or size > _MOST_UNPACKED:
            raise Refused(f"the tree {tree} has {files} files of {size} bytes together")
        return files, size

    for kind, name, _ in rows:
        if kind == "tree":
            measure(name)
