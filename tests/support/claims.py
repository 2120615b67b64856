"""Claims of gains: made by ``goalseek claim``, taken apart and put together again, and checked in an empty folder."""

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from project import Ended, Project, ended

Members = dict[str, bytes]


def claim(project: Project, *words: str) -> Path:
    tar = project.top.parent / "gain.tar"
    project.check("claim", "-o", str(tar), *words)
    return tar


def members(tar: Path) -> Members:
    with tarfile.open(tar) as opened:
        return {member.name: opened.extractfile(member).read() for member in opened}  # type: ignore[union-attr]


def receipt_of(tar: Path) -> dict[str, Any]:
    return dict(json.loads(members(tar)["receipt.json"]))


def rewrite(tar: Path, edit: Callable[[Members], object]) -> Path:
    """The same tar after ``edit`` has changed its members in place."""
    content = members(tar)
    edit(content)
    with tarfile.open(tar, "w", format=tarfile.USTAR_FORMAT) as opened:
        for name, data in content.items():
            head = tarfile.TarInfo(name)
            head.size = len(data)
            opened.addfile(head, io.BytesIO(data))
    return tar


def edit_receipt(tar: Path, edit: Callable[[dict[str, Any]], object]) -> Path:
    def edit_members(content: Members) -> None:
        receipt = json.loads(content["receipt.json"])
        edit(receipt)
        content["receipt.json"] = json.dumps(receipt).encode()

    return rewrite(tar, edit_members)


def verify(tar: Path, *words: str, folder: Path | None = None) -> Ended:
    """As somebody who has nothing but the tar, unless a ``folder`` is given."""
    empty = tar.parent / "empty"
    empty.mkdir(exist_ok=True)
    return ended(["verify", str(tar), *words], folder or empty)


def answer_of(tar: Path, *words: str, folder: Path | None = None) -> tuple[int, str, str]:
    """Exit code, answer and reason."""
    done = verify(tar, "--json", *words, folder=folder)
    assert done.stdout, done
    found = json.loads(done.stdout)
    return done.exit_code, found["answer"], found["why"]
