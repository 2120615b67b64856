"""A full disk stops the run where it is; nothing is corrupt, and it goes on when there is room."""

import errno
import os
from pathlib import Path

import pytest
from project import Project, answer

from goalseek.cli.main import run


@pytest.mark.parametrize("call", ["fsync", "replace", "mkdir"])
@pytest.mark.parametrize("after", [0, 3, 9, 20])
@pytest.mark.slow
def test_it_stops_with_3_and_goes_on_when_there_is_room(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], call: str, after: int
) -> None:
    """The system call fails from its n-th use on, in this process: as when somebody else fills the disk."""
    project.set_moves(answer(2), answer(0), answer(3))
    project.climb("iterate", "-n", "1")
    real = getattr(os, call)
    used = 0

    def failing(*arguments: object, **more: object) -> object:
        nonlocal used
        used += 1
        if used > after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*arguments, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing)
        patch.setattr(Path, "replace", lambda self, target: Path(os.replace(self, target) or target))
        patch.setattr(Path, "mkdir", _mkdir)
        code = run(["-C", str(project.folder), "iterate", "-n", "2"])
    told = capsys.readouterr().err
    assert code in (0, 3) and (code == 0) == ("disk is full" not in told), told
    records = project.climb("iterate", "-n", "3" if code else "1")
    assert [record["iteration"] for record in records[:4]] == [0, 1, 2, 3]
    assert [record["metric"]["value"] for record in records[:4]] == [1, 2, 0, 3]


def _mkdir(path: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
    if exist_ok and path.is_dir():
        return
    if parents:
        for above in reversed(path.parents):
            if not above.exists():
                os.mkdir(above, mode)
    os.mkdir(path, mode)
