"""A throw-away HOME for an agent; its credential files are links to the real ones.

It lasts an iteration: APPLY resumes PLAN's session. A refresh token works once, so a renewed login must be kept.
"""

import contextlib
import errno
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from goalseek import disk
from goalseek.sandbox.environment import Redactor

_CREDENTIAL_LIMIT = 2**20
_FILE_LIMIT = 2**26
_LONG_FILE_LIMIT = 2**30
_LINE_LIMIT = 2**20


class AgentHome:
    """``folder/home.json`` has its label, and the files in it that are links to credentials."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "home"
        self._record = folder / "home.json"

    def is_of(self, label: str) -> bool:
        return (
            disk.read_object(self._record).get("label") == label and self.path.is_dir() and not self.path.is_symlink()
        )

    def make(self, label: str, links: Mapping[str, tuple[Path, Path]], files: Mapping[str, str]) -> None:
        """Keeps a home with this label. ``links`` maps its paths to a real file, and to where a program sees that."""
        self.collect_renewed_logins()
        if not self.is_of(label):
            disk.recreate_folder(self.path, 0o700)
        stored = {"label": label, "links": {path: str(real) for path, (real, _) in links.items()}}
        disk.write_atomic(self._record, json.dumps(stored) + "\n", durable=True)
        with disk.own_folder(self.path) as home:
            for path, (_, seen) in links.items():
                home.link(path, os.fsencode(seen))
            for path, text in files.items():
                with home.create(path, 0o644) as file:
                    file.write(text.encode())

    def collect_renewed_logins(self) -> list[str]:
        """Writes credential files that a program replaced into the real ones, and gives the paths of these.

        Deletes one that is empty, over 1 MiB, or older than the real file: someone has logged in since.
        """
        moved = []
        for path, real in disk.read_object(self._record).get("links", {}).items():
            try:
                with disk.open_regular(self.path, path) as file:
                    status = os.fstat(file.fileno())
                    content = file.read(_CREDENTIAL_LIMIT + 1)
            except OSError:  # a link as it was, or nothing
                continue
            try:
                is_newer = status.st_mtime_ns >= os.stat(real).st_mtime_ns
            except OSError:  # it is gone
                is_newer = True
            if is_newer and 0 < len(content) <= _CREDENTIAL_LIMIT:
                _write_over(Path(real), content, status)
                moved.append(real)
            disk.remove_if_exists(self.path / path)
        return moved

    def redact(self, secrets: Redactor) -> None:
        """Edits text files only; removes any other with a credential, as a database does not survive an edit."""
        for path in [*self.path.rglob("*")]:
            name = path.relative_to(self.path).as_posix()
            with contextlib.suppress(OSError):  # a folder, or the link to a login
                with disk.open_regular(self.path, name) as file:
                    status, content = os.fstat(file.fileno()), file.read(_LONG_FILE_LIMIT)
                if secrets.contains(content):
                    disk.remove_if_exists(path)
                    if b"\0" not in content:
                        with disk.own_folder(self.path) as home, home.create(name, 0o600) as file:
                            file.write(secrets.redact(content))
                        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # the newest is read for its usage

    def empty(self) -> None:
        """Collects renewed logins first."""
        if os.path.lexists(self._record) or os.path.lexists(self.path):  # most providers need none
            self.collect_renewed_logins()
            disk.remove_if_exists(self.path)
            disk.remove_if_exists(self._record)

    def read(self, pattern: str) -> bytes:
        """The newest file written since ``make`` that matches a glob. Raises OSError for none, and above the limits.

        Over 64 MiB, lines over 1 MiB are left out, which hold a tool's output. Limits: 1 GiB, and 64 MiB without those.
        """
        made = self._record.stat().st_mtime_ns
        paths = sorted(self.path.glob(pattern), key=lambda path: path.lstat().st_mtime_ns)
        if not paths or paths[-1].lstat().st_mtime_ns < made:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), pattern)
        path = paths[-1].relative_to(self.path).as_posix()
        with disk.open_regular(self.path, path) as file:
            size = os.fstat(file.fileno()).st_size
            content = file.read(_FILE_LIMIT + 1) if size <= _FILE_LIMIT else b""
            if _FILE_LIMIT < size <= _LONG_FILE_LIMIT:
                content = b"".join(_short_lines(file))
        if size > _LONG_FILE_LIMIT or len(content) > _FILE_LIMIT:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
        return content


def _short_lines(file: BinaryIO) -> Iterator[bytes]:
    """Skips a line over 1 MiB as a whole."""
    is_long = False
    while piece := file.readline(_LINE_LIMIT):
        ends = piece.endswith(b"\n") or len(piece) < _LINE_LIMIT
        if ends and not is_long:
            yield piece
        is_long = not ends


def _write_over(real: Path, content: bytes, status: os.stat_result) -> None:
    """It stays the same file, which other sandboxes show: by one write, padded to the old size."""
    with open(os.open(real, os.O_RDWR | os.O_CREAT, 0o600), "r+b", buffering=0) as file:  # noqa: PTH123
        os.posix_fallocate(file.fileno(), 0, len(content))  # a full disk stops here, before anything is written
        file.write(content.ljust(os.fstat(file.fileno()).st_size, b"\n"))
        os.fsync(file.fileno())
    os.utime(real, ns=(status.st_atime_ns, status.st_mtime_ns))
