"""How far one kept candidate goes through the program: from its provider's answer until its record is written.

    python tests/architecture/trace_climb.py FOLDER

climbs in FOLDER, which must be empty, with the ``goalseek`` that this Python imports, and prints JSON: the modules that
were entered, and the calls from one module into another by pair. The provider is ``scripted``, in this process; the
verifier runs without a sandbox, so that the modules are the same on every machine; the calls differ by some percent,
as waiting for a program takes more turns or fewer. What an import runs, and going on with a generator, are no calls;
``__init__`` and the like that ``dataclasses`` writes are none either. A function that another library calls back counts
as called by the module of ours that called that library.
"""

import contextlib
import inspect
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

import tomli_w

import goalseek

NO_CALLS = ("<module>", "<genexpr>")
RECORDS = "results.jsonl"
PROVIDER = os.path.join("providers", "scripted.py")
ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{what}": "trace@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


class Trace:
    """Counts from the return of the provider's ``apply`` until ``results.jsonl`` is opened for writing."""

    def __init__(self) -> None:
        self.entered: set[str] = set()
        self.calls: Counter[tuple[str, str]] = Counter()
        self.is_on = self.is_over = False
        self._resumable: set[int] = set()
        self._kept: list[FrameType] = []  # so that no identity is used twice

    def on_profile(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if not self.is_on:
            is_answer = event == "return" and code.co_name == "apply" and code.co_filename.endswith(PROVIDER)
            self.is_on = is_answer and not self.is_over
            return
        if event == "call" and code.co_filename != "<string>" and (module := module_of(frame)):
            self._enter(frame, module)

    def on_audit(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.is_on and event == "open":
            path, _, flags = arguments
            is_written = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR)
            if is_written and isinstance(path, (str, bytes, os.PathLike)) and Path(os.fsdecode(path)).name == RECORDS:
                self.is_on, self.is_over = False, True

    def _enter(self, frame: FrameType, module: str) -> None:
        if id(frame) in self._resumable:
            return
        if frame.f_code.co_flags & inspect.CO_GENERATOR:  # its next call is a going on
            self._resumable.add(id(frame))
            self._kept.append(frame)
        self.entered.add(module)
        caller = caller_of(frame)
        if caller and caller != module and frame.f_code.co_name not in NO_CALLS:
            self.calls[caller, module] += 1


def module_of(frame: FrameType) -> str:
    """The module of ours that a frame belongs to, or ""."""
    name = str(frame.f_globals.get("__name__", ""))
    return name if name.partition(".")[0] == "goalseek" else ""


def caller_of(frame: FrameType) -> str:
    """The nearest module of ours up the stack."""
    above = frame.f_back
    while above is not None and not module_of(above):
        above = above.f_back
    return module_of(above) if above is not None else ""


def make_project(folder: Path) -> Path:
    """A repository of four files whose two scripted candidates are kept; gives its manifest."""
    top = folder / "repository"
    top.mkdir()
    manifest = {
        "version": 1,
        "project": {"name": "trace"},
        "scope": {"writable": ["value.txt"], "hidden": ["judge.sh"]},
        "metric": {"direction": "maximize", "regex": "([0-9]+)", "name": "value", "noise": "none"},
        "verify": [{"run": "sh judge.sh", "sees": "both"}],
        "provider": {"name": "scripted", "script": str(folder / "moves.toml")},
        "sandbox": {"mode": "none"},
    }
    moves = [{"title": f"move {number}", "files": {"value.txt": f"{number}\n"}} for number in (2, 3)]
    (folder / "moves.toml").write_text(tomli_w.dumps({"move": moves}))
    (top / "goalseek.toml").write_text(tomli_w.dumps(manifest))
    for name, text in {"value.txt": "1\n", "judge.sh": "cat value.txt\n", "other.txt": "other\n"}.items():
        (top / name).write_text(text)
    for arguments in (["init", "--quiet"], ["add", "-A"], ["commit", "--quiet", "-m", "start"]):
        subprocess.run(["git", *arguments], cwd=top, check=True, timeout=60)
    return top / "goalseek.toml"


def main() -> None:
    """Climbs twice and prints what the second candidate went through: the first one's way has imports on it."""
    folder = Path(sys.argv[1]).resolve()
    for name in [name for name in os.environ if name.startswith(("GOALSEEK_", "GIT_", "XDG_"))]:
        del os.environ[name]
    os.environ.update(ENVIRONMENT, HOME=str(folder), XDG_CACHE_HOME=str(folder / "cache"))
    trace = Trace()
    climb = goalseek.iterate(goalseek.load(make_project(folder)), iterations=2)
    with contextlib.closing(climb):  # type: ignore[type-var]
        next(climb)
        next(climb)
        sys.addaudithook(trace.on_audit)
        sys.setprofile(trace.on_profile)
        try:
            record = next(climb)
        finally:
            sys.setprofile(None)
    calls = {" -> ".join(pair): count for pair, count in trace.calls.most_common()}
    if record.outcome != "kept" or not trace.is_over:
        raise SystemExit(f"no kept candidate was seen to its record: {record.outcome}, {len(trace.entered)} modules")
    print(json.dumps({"modules": sorted(trace.entered), "calls": calls}))


if __name__ == "__main__":
    main()
