"""Every test lives in a home of its own, with none of the user's git configuration, and leaves no process behind."""

import fcntl
import functools
import gc
import hashlib
import os
import pickle
import shutil
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import fork_server
import promoting
import pytest
import reviewing
from fake_agents import Fake
from project import IDENTITY, Project, Projects, end_all

from goalseek.disk import add_own

pytest_plugins = ["skips"]
sys.dont_write_bytecode = False  # pytest's own form of 160 modules takes each worker ten seconds to make
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)  # and given back to what it starts


@pytest.fixture(autouse=True, scope="session")
def signals_are_heard() -> None:
    """What a test starts hears ^C and the others, also where whoever started the tests switched them off."""
    for number in signal.valid_signals():
        if signal.getsignal(number) is signal.SIG_IGN and number not in IGNORED_BY_PYTHON:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


@pytest.fixture(autouse=True, scope="session")
def no_server_is_left() -> Iterator[None]:
    """The process that command lines are forked from ends with the session."""
    yield
    fork_server.close()


@pytest.fixture(autouse=True)
def isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home that only this test has. It is also the mark by which this test's processes are known."""
    for name in [name for name in os.environ if name.startswith(("GOALSEEK_", "GIT_", "XDG_"))]:
        monkeypatch.delenv(name)
    home = tmp_path / "home"
    for variable, folder in (("HOME", home), ("XDG_CACHE_HOME", home / "cache"), ("XDG_CONFIG_HOME", home / "config")):
        folder.mkdir()
        monkeypatch.setenv(variable, str(folder))
    for variable, value in IDENTITY.items():
        monkeypatch.setenv(variable, value)
    sessions = ("CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID")
    for variable in ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "COLUMNS", "NO_COLOR", *sessions):
        monkeypatch.delenv(variable, raising=False)
    return home


def forget_failure() -> None:
    """Lets go of what a failed test left open, which is no fault of the test in which Python would complain of it."""
    sys.last_type = sys.last_value = sys.last_traceback = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(autouse=True)
def no_process_is_left(isolated: Path, request: pytest.FixtureRequest) -> Iterator[None]:
    """After the test nothing runs any more that was started under its home."""
    failed_before = request.session.testsfailed
    yield
    left = end_all(isolated, seconds=10)
    if request.session.testsfailed > failed_before:
        forget_failure()
    assert not left, f"still running: {left}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begins with the files that take minutes: one of them at the end would keep a single worker busy."""
    items.sort(key=lambda item: item.path.parent.name not in ("scenarios", "git"))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """What a worker that was killed had started ends too."""
    end_all(node.config._tmp_path_factory.getbasetemp() / f"popen-{node.gateway.id}")


def pytest_unconfigure(config: Any) -> None:
    """Nor does anything stay of a test whose worker had no time to end it, as when ^C finds the machine busy."""
    end_all(config._tmp_path_factory.getbasetemp())


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """The test's folder, as one that is goalseek's own: it may remove in it."""
    add_own(tmp_path)
    return tmp_path


@pytest.fixture
def make_project(tmp_path: Path) -> Projects:
    """Makes a project in ``tmp_path / name``; the arguments are those of ``Project.make``."""

    def make(name: str = "repository", **how: object) -> Project:
        return Project.make(tmp_path / name, **how)  # type: ignore[arg-type]

    return make


@pytest.fixture
def project(make_project: Projects) -> Project:
    """A project whose candidate, ``answer.json``, is itself the metrics: ``{"score": 1, "size": 10}`` at first."""
    return make_project()


@pytest.fixture
def same_dates(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first commit has the same hash in every copy."""
    for variable in ("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"):
        monkeypatch.setenv(variable, "2026-01-01T00:00:00Z")


@pytest.fixture
def go(tmp_path: Path) -> Iterator[Path]:
    """The file that measurements of a ``waiting_project`` wait for; it is there when the test has ended."""
    yield tmp_path / "go"
    (tmp_path / "go").touch()


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Projects:
    """Gives a copy at ``top`` of what ``make(its top, *of, **how)`` makes, which is called once a session."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent

    def copy(make: Projects, top: Path, *of: object, **how: object) -> Project:
        key = hashlib.sha256(repr((make.__module__, make.__qualname__, top.name, of, how)).encode()).hexdigest()
        folder = shared / f"once-{key[:12]}"
        folder.mkdir(exist_ok=True)
        with (folder / "lock").open("w") as lock, pytest.MonkeyPatch.context() as patch:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / "made").exists():
                patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
                shutil.rmtree(folder / top.name, ignore_errors=True)  # of a test that was cut
                made = make(folder / top.name, *of, **how)
                (folder / "made").write_bytes(pickle.dumps(made))
        return pickle.loads((folder / "made").read_bytes()).copy(top)

    return copy


@pytest.fixture
def played(made_once: Projects, tmp_path: Path) -> Projects:
    """Gives a copy of ``Project.play(..., *moves, **how)``, which is played once a session; ``more`` are left to play."""

    def copy(*moves: Any, more: Sequence[Any] = (), **how: Any) -> Project:
        project = made_once(Project.play, tmp_path / "repository", *moves, **how)
        project.set_moves(*moves, *more)
        return project

    return copy


@pytest.fixture
def reviewed(tmp_path: Path) -> Projects:
    """Makes a project with an author, and a reviewer who says these words."""
    return functools.partial(reviewing.reviewed_project, tmp_path)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Fake]:
    """Puts a pretended agent on PATH, which ``acts`` as it is told. No credentials are there."""
    for name in [name for name in os.environ if name.endswith(("_API_KEY", "_TOKEN"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")

    def make(name: str, *edit: str, **acts: str) -> Fake:
        made = Fake(name, tmp_path / "bin")
        made.acts(*edit, **acts)
        return made

    return make


@pytest.fixture
def climbed(made_once: Projects, tmp_path: Path) -> Project:
    """A copy of the climb of ``promoting``: five iterations, of which 1, 3 and 5 were kept."""
    return made_once(promoting.climb, tmp_path / "repository")
