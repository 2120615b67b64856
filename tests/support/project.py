"""A real git repository with a manifest, on which tests run the real command line.

A first climb costs half a second of processor time, an iteration a fifth, a copy a fiftieth. A test that only reads, or
that goes on from somewhere, takes ``played(answer(2), answer(1), more=(answer(3),))``: a copy of the project after the
first two moves, which are played once for all tests of the session. What a module needs beyond that,
``made_once(make, top)`` makes once: ``make(top)`` is a function of the module that gives a project. Both copies are the
test's own, with the script, without the trees and without what programs wrote into a home. ``project`` is for what
happens in the first invocation, or before it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import fork_server
import tomli_w

Found = TypeVar("Found")
IDENTITY = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A User",
    "GIT_AUTHOR_EMAIL": "user@example.com",
    "GIT_COMMITTER_NAME": "A User",
    "GIT_COMMITTER_EMAIL": "user@example.com",
}
JUDGE = """\
case $(cat answer.json) in
*fail*) echo "told to fail" >&2; exit 3;;
*hang*) sleep 60;;
*silent*) exit 0;;
esac
cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"
"""
MANIFEST: dict[str, Any] = {
    "version": 1,
    "project": {"name": "demo"},
    "scope": {"writable": ["answer.json"], "hidden": ["hidden/**"]},
    "metric": {"direction": "maximize", "query": "score", "noise": "none"},
    "verify": [{"name": "judge", "run": "sh hidden/judge.sh", "sees": "both"}],
    "sandbox": {"mode": "none"},
}


def answer(score: object, size: int = 10, more: str = "") -> str:
    """A candidate: three lines and one more for each line of ``more``."""
    return f'{{"score": {score},\n{more}"size": {size}\n}}\n'


FILES = {"answer.json": answer(1), "hidden/judge.sh": JUDGE, "other.txt": "not the candidate's\n"}


def held_out(run: str, name: str = "final", sees: str = "both", **holdout: Any) -> dict[str, Any]:
    """The tables of a holdout whose command runs after the usual judge."""
    final = {"name": name, "run": run, "sees": sees}
    return {"verify": [*MANIFEST["verify"], final], "holdout": {"command": name, **holdout}}


@dataclass(frozen=True)
class Ended:
    exit_code: int
    stdout: str
    stderr: str


class Project:
    """A repository at ``top``, and the manifest's folder in it."""

    def __init__(self, top: Path, folder: Path) -> None:
        self.top = top
        self.folder = folder
        self.manifest = folder / "goalseek.toml"
        self.script = top.parent / f"{top.name}-moves.toml"
        self.agent = top.parent / "agent.sh"

    @classmethod
    def make(
        cls,
        top: Path,
        files: Mapping[str, str | bytes] = FILES,
        manifest: Mapping[str, Any] | str | None = None,
        below: str = ".",
        object_format: str = "sha1",
    ) -> Project:
        """A committed project; ``manifest`` is text, or tables to lay over ``MANIFEST``; ``below`` is its folder."""
        top.mkdir(parents=True)
        made = cls(top, top / below)
        made.git("init", "--quiet", "--initial-branch=main", f"--object-format={object_format}")
        made.write(files)
        made.set_manifest(manifest or {})
        made._commit_all("start")
        return made

    @classmethod
    def play(cls, top: Path, *moves: Any, **how: Any) -> Project:
        """A project that has played these moves, one an iteration; ``how`` is ``make``'s."""
        played = cls.make(top, **how)
        played.set_moves(*moves)
        played.climb("iterate", "-n", str(len(moves)))
        return played

    def copy(self, top: Path) -> Project:
        """The same at another place, with its script, without the trees."""
        copy_folder(self.top, top)
        copied = Project(top, top / self.folder.relative_to(self.top))
        copied.script = top.parent / self.script.name
        if self.script.exists():
            shutil.copyfile(self.script, copied.script)
        return copied

    def write(self, files: Mapping[str, str | bytes]) -> None:
        for path, text in files.items():
            place = self.folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape"))

    def set_manifest(self, manifest: Mapping[str, Any] | str) -> None:
        """Writes the manifest: a text as it is, or tables in place of the usual ones; the provider is scripted."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if isinstance(manifest, str):
            self.manifest.write_text(manifest)
            return
        usual = {**MANIFEST, "provider": {"name": "scripted", "script": os.path.relpath(self.script, self.folder)}}
        self.manifest.write_text(tomli_w.dumps({**usual, **manifest}))

    def set_agent(self, script: str, tables: Mapping[str, Any] | None = None, **provider: Any) -> Project:
        """Makes the provider a command that runs this script; ``tables`` are others of the manifest."""
        self.agent.write_text(script)
        command = {"name": "command", "command": ["sh", str(self.agent)], **provider}
        self.set_manifest({"provider": command, **(tables or {})})
        return self

    def set_moves(self, *moves: str | Mapping[str, Any]) -> None:
        """The script: each move is a new ``answer.json``, or a whole ``[[move]]``."""
        tables = [
            {"title": f"move {number}", **({"files": {"answer.json": move}} if isinstance(move, str) else move)}
            for number, move in enumerate(moves, start=1)
        ]
        self.script.write_text(tomli_w.dumps({"move": tables}))

    def git(self, *arguments: str, stdin: bytes = b"", folder: Path | None = None) -> str:
        """What a git command prints, without the last newline; a failure is the test's."""
        done = subprocess.run(
            ["git", *arguments], cwd=folder or self.top, input=stdin, capture_output=True, timeout=120
        )
        assert done.returncode == 0, (arguments, done.stderr)
        return os.fsdecode(done.stdout).removesuffix("\n")

    def commit(self, message: str = "more") -> str:
        """Commits everything; gives the hash."""
        self._commit_all(message)
        return self.git("rev-parse", "HEAD")

    def _commit_all(self, message: str) -> None:
        self.git("add", "-A")
        self.git("-c", "maintenance.auto=false", "commit", "--quiet", "-m", message)

    def start(
        self,
        *arguments: str,
        before: Sequence[str] = (),
        process_group: int | None = None,
        program: Sequence[str] = ("-m", "goalseek"),
    ) -> subprocess.Popen[str]:
        """Starts goalseek in the manifest's folder; ``before`` is a program that starts it."""
        return subprocess.Popen(
            [*before, sys.executable, *program, *arguments],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=process_group,
        )

    def run(self, *arguments: str) -> Ended:
        return ended(arguments, self.folder)

    def start_until(self, there: Path, *arguments: str) -> subprocess.Popen[str]:
        """Starts goalseek, and gives it at work as soon as a file is there."""
        process = self.start(*arguments)
        until(lambda: there.exists() or process.poll() is not None)
        assert there.exists(), process.communicate(timeout=120)
        return process

    def kill_when(self, there: Path, *arguments: str) -> None:
        """Starts goalseek, and kills it as soon as a file is there."""
        process = self.start_until(there, *arguments)
        process.kill()
        process.communicate(timeout=120)

    def step_until(self, holds: Callable[[], bool]) -> None:
        """Does one phase after the other until something holds, which takes less than two iterations."""
        for _ in range(20):
            if holds():
                return
            self.check("step")
        raise AssertionError("it never came")

    def climb(self, *arguments: str) -> list[dict[str, Any]]:
        """Runs goalseek, which must end with 0; gives the iterations' records."""
        self.check(*(arguments or ("iterate",)))
        return self.iterations()

    def check(self, *arguments: str) -> str:
        """Runs goalseek, which must end with 0; gives what it printed."""
        ended = self.run(*arguments)
        assert ended.exit_code == 0, (arguments, ended.stdout, ended.stderr)
        return ended.stdout

    def ask(self, *arguments: str) -> Any:
        """The JSON answer of goalseek, which must end with 0."""
        return json.loads(self.check("--json", *arguments))

    def fail(self, code: int, *arguments: str) -> str:
        """Runs goalseek, which must end with this code and no answer; gives what it said."""
        ended = self.run(*arguments)
        assert (ended.exit_code, ended.stdout) == (code, ""), (arguments, ended)
        return ended.stderr

    @property
    def climb_folder(self) -> Path:
        """That of the one climb, whatever its name is; ``demo`` where there is none or another one too."""
        found = [place for place in self.folder.glob(".goalseek/*") if place.is_dir()]
        return found[0] if len(found) == 1 else self.folder / ".goalseek" / "demo"

    @property
    def logs(self) -> Path:
        return self.climb_folder / "logs"

    @property
    def results(self) -> Path:
        return self.logs / "results.jsonl"

    def state(self) -> dict[str, Any]:
        return dict(json.loads((self.logs / "state.json").read_text()))

    def records(self) -> list[dict[str, Any]]:
        """All whole lines of ``results.jsonl``: a write under way, or one that was killed, leaves a last one torn."""
        whole, _, _ = (self.results.read_bytes() if self.results.exists() else b"").rpartition(b"\n")
        return [json.loads(line) for line in whole.splitlines()]

    def iterations(self) -> list[dict[str, Any]]:
        """The records of iterations, baselines among them."""
        return [record for record in self.records() if record["kind"] == "iteration"]

    def run_folder(self, number: int) -> Path:
        """The artifacts of an iteration."""
        return self.climb_folder / "runs" / f"{number:04d}"

    def trees(self) -> Path:
        """Where the workspace and the bench of the one project are."""
        (found,) = Path(os.environ["XDG_CACHE_HOME"], "goalseek").iterdir()
        return found

    def users(self) -> dict[str, str]:
        """All that is the user's, byte for byte: files with their times, index, HEAD, stash, branches, settings."""
        found = {}
        for path in sorted(self.top.rglob("*")):
            inside = path.relative_to(self.top)
            ours = inside.parts[0] == ".git" or ".goalseek" in inside.parts or not path.is_file()
            if not ours:
                found[str(inside)] = f"{path.lstat().st_mtime_ns} {path.lstat().st_mode} {_digest(path)}"
        common = Path(self.git("rev-parse", "--path-format=absolute", "--git-common-dir"))
        for name in ("HEAD", "index", "config", "logs/HEAD", "logs/refs/stash", "COMMIT_EDITMSG", "info/exclude"):
            found[f"git: {name}"] = _digest(common / name) if (common / name).exists() else "none"
        refs = self.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        found["refs"] = "\n".join(ref for ref in refs if "refs/goalseek/" not in ref and "heads/goalseek/" not in ref)
        return found

    def traces(self) -> list[str]:
        """What goalseek wrote into the repository or beside the manifest."""
        refs = self.git("for-each-ref", "--format=%(refname)").splitlines()
        found = [ref for ref in refs if "goalseek/" in ref]
        git_folder = Path(self.git("rev-parse", "--path-format=absolute", "--git-common-dir"))
        places = (self.folder / ".goalseek", git_folder / "goalseek")
        return found + [str(place) for place in places if place.exists()]


Projects = Callable[..., Project]


def ended(
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str] | None = None,
    seconds: float = 120.0,
    watch: Sequence[Any] = (),
) -> Ended:
    """Runs goalseek to its end, in a process forked from one that has it loaded; ``watch`` is for ``effects``."""
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        pid = fork_server.server().start(
            arguments, folder, environment or os.environ, (stdout.fileno(), stderr.fileno()), watch
        )
        try:
            code = fork_server.server().wait(seconds)
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            fork_server.close()
            raise
        told = []
        for file in (stdout, stderr):
            file.seek(0)
            told.append(file.read().decode().replace("\r\n", "\n"))
    return Ended(code, told[0], told[1])


def copy_folder(folder: Path, to: Path) -> None:
    """Copies a folder as it is, with its links and times; a program does it in a fourth of Python's time."""
    subprocess.run(["cp", "-a", "--", folder, to], check=True, timeout=120)


def home(*names: str) -> Path:
    """The home that this test has, or a place in it."""
    return Path(os.environ["HOME"], *names)


def until(holds: Callable[[], Found]) -> Found:
    """Waits until something holds, a minute at the most, and gives it."""
    deadline = time.monotonic() + 60
    while not (found := holds()):
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.01)
    return found


def _numbers() -> set[str]:
    return {name for name in os.listdir("/proc") if name.isdigit()} - {str(os.getpid())}


_others = _numbers()  # they ran before the tests, so that no test started them


def living(home: Path) -> dict[int, str]:
    """The processes whose home this is, or is in this folder: number and command line."""
    mark = f"HOME={home}".encode()
    found = {}
    numbers = _numbers()
    _others.intersection_update(numbers)  # a number may be given again
    for pid in numbers - _others:
        try:
            environment = Path("/proc", pid, "environ").read_bytes()
            if mark + b"\0" in environment or mark + b"/" in environment:
                found[int(pid)] = os.fsdecode(Path("/proc", pid, "cmdline").read_bytes()).replace("\0", " ")
        except OSError:
            continue
    return found


def everything_written(project: Project) -> Iterator[tuple[str, bytes]]:
    """All that goalseek wrote: its folders, recordings, the trees, and every object of the repository."""
    cache = Path(os.environ["XDG_CACHE_HOME"])
    for root in (project.folder / ".goalseek", project.folder / "recordings", project.top / ".git", cache):
        for place in root.rglob("*"):
            if place.is_file() and not place.is_symlink():
                yield str(place), place.read_bytes()
    names = project.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname)").encode()
    command = ["git", "cat-file", "--batch"]
    done = subprocess.run(command, cwd=project.top, input=names, capture_output=True, check=True, timeout=120)
    yield "objects", done.stdout


def end_all(home: Path, seconds: float = 0.0) -> dict[int, str]:
    """Gives the processes of a home so long to end, and kills what is left; gives what it killed."""
    deadline = time.monotonic() + seconds
    while (left := living(home)) and time.monotonic() < deadline:
        time.sleep(0.02)
    killed = dict(left)
    deadline = time.monotonic() + 10
    while left and time.monotonic() < deadline:
        # All are stopped before the first is killed: none sees the end of another and acts on it.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
        left = living(home)
        killed |= left
    return killed


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
