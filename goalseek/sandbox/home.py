"""A throw-away HOME for an agent, in which its credential files are links to the real ones.

It lasts for an iteration, so that APPLY goes on with the session of PLAN. A refresh token works once: a copy that is
thrown away would log the user out. So there is never a copy. A program that writes in place writes the real file
through the link; one that puts a new file in its place is seen afterwards, and what it put there is moved to where the
link led.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from goalseek.files import write_durably
from goalseek.own_folders import clear, make_anew, open_beneath, own_folder

_CREDENTIAL_MOST = 2**20
_FILE_MOST = 2**26


class AgentHome:
    """The HOME in ``folder``, and beside it what it was made for and which files in it are links to credentials."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "home"
        self._told = folder / "home.json"

    def is_of(self, label: str) -> bool:
        """Whether it was made for this, and is still there."""
        return self._stored().get("label") == label and self.path.is_dir() and not self.path.is_symlink()

    def make(self, label: str, links: Mapping[str, tuple[Path, Path]], files: Mapping[str, str]) -> None:
        """Makes it anew where it was for something else, then puts links and files there.

        ``links`` are by path below it: the real file, and the path by which the program finds that. Raises OSError.
        """
        self.collect_renewed_logins()
        if not self.is_of(label):
            make_anew(self.path, 0o700)
        stored = {"label": label, "links": {path: str(real) for path, (real, _) in links.items()}}
        write_durably(self._told, json.dumps(stored).encode() + b"\n")
        with own_folder(self.path) as home:
            for path, (_, seen) in links.items():
                home.link(path, os.fsencode(seen))
            for path, text in files.items():
                with open(home.create(path, 0o644), "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
                    file.write(text)

    def collect_renewed_logins(self) -> list[str]:
        """Moves credentials that a program wrote anew to their own places; gives the paths of those.

        What is older than the real file stays behind: the user has logged in since. So does what is no regular file
        of a sensible size. Nothing is left of either.
        """
        taken = []
        for path, real in self._stored().get("links", {}).items():
            try:
                with open(open_beneath(self.path, path), "rb") as file:  # noqa: PTH123 - a descriptor
                    status = os.fstat(file.fileno())
                    content = file.read(_CREDENTIAL_MOST + 1)
            except OSError:  # a link as it was, or nothing
                continue
            if _is_newer(status, Path(real)) and 0 < len(content) <= _CREDENTIAL_MOST:
                _replace(Path(real), content)
                taken.append(real)
            clear(self.path / path)
        return taken

    def read(self, path: str) -> bytes:
        """The bytes of a regular file in it. Raises OSError where there is none, or one of more than 64 MiB."""
        with open(open_beneath(self.path, path), "rb") as file:  # noqa: PTH123 - a descriptor
            content = file.read(_FILE_MOST + 1)
        if len(content) > _FILE_MOST:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
        return content

    def _stored(self) -> dict[str, Any]:
        try:
            stored = json.loads(self._told.read_bytes())
        except (OSError, ValueError):
            return {}
        return stored if isinstance(stored, dict) else {}


def _is_newer(status: os.stat_result, real: Path) -> bool:
    try:
        return status.st_mtime_ns >= real.stat().st_mtime_ns
    except OSError:
        return True


def _replace(real: Path, content: bytes) -> None:
    """Puts a new content in a file's place, with the modes of the old one; after a crash it has one or the other."""
    mode = stat.S_IMODE(real.stat().st_mode) if real.exists() else 0o600
    temporary = real.with_name(f".{real.name}.goalseek")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode)
    with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(real)
