"""Anything a person, a machine or a power cut may do, in any order, against a plain model of what must be there.

Undisturbed steps run in this process; what is killed, and what somebody else does meanwhile, is the real command line.
"""

import contextlib
import io
import json
import os
import shutil
import signal
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from inside import retry_at_once, run_here
from killing import assert_paid_once, climbing, kill, start
from project import end_all, ended, until

KINDS = ("better", "worse", "tie", "failing", "out_of_scope", "no_change", "duplicate", "provider_failed")
MEASURED = ("better", "worse", "tie", "failing")
EFFECTS = ("os.rename", "open", "os.remove", "os.mkdir", "os.link", "refs")
HOLD = 'touch "$HOME/held"; while [ ! -e "$HOME/go" ]; do sleep 0.02; done\n'
Row = tuple[str, str, float | None]


@dataclass(frozen=True)
class Move:
    """What the agent will do, the answer that it writes, and the row that must come of it."""

    kind: str
    text: str | None
    row: Row


INTERRUPTED = Move("interrupted", None, ("skipped", "interrupted", None))


class Anything(RuleBasedStateMachine):
    """One project, and the model of it: rows, incumbent, what was measured under the ruler, and who was told what."""

    root: Path

    def __init__(self) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp(dir=self.root))
        os.environ["HOME"], os.environ["XDG_CACHE_HOME"] = str(self.home), str(self.home / "cache")
        self.project = climbing(self.home / "repository", 0)
        table = {"name": "command", "command": ["sh", str(self.home / "agent.sh")]}
        self.project.set_manifest({"limits": {"failures": "none"}, "provider": table})
        self.project.commit("without a limit")
        self.rows: list[Row] = []
        self.score, self.incumbent = 1.0, '{"score": 1}\n'
        self.measured = {self.incumbent}
        self.directions: list[str] = []
        self.runs = 0
        self.pending: Move | None = None
        self.is_gone = False
        self.is_lost = False
        self.was_killed = False
        self.tried = 0
        self.users = self.project.users()

    def teardown(self) -> None:
        if self.rows and (self.pending or self.was_killed):
            self.iterate("no_change")
            self.everything_agrees()
        assert not end_all(self.home, seconds=5)
        shutil.rmtree(self.home)

    def call(self, *arguments: str, expected: int = 0) -> str:
        told, said = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(said):
            code = run_here(["-C", str(self.project.folder), *arguments])
        assert code == expected, (arguments, code, told.getvalue(), said.getvalue())
        return told.getvalue()

    def offer(self, kind: str) -> Move:
        """Tells the agent what to do next; what was under way when somebody killed it is finished first."""
        move = self.pending or self._made(kind)
        script = {"out_of_scope": "echo mine > other.txt\n", "no_change": "", "provider_failed": "exit 7\n"}.get(
            move.kind
        )
        if script is None:
            (self.home / "answer").write_text(move.text or "")
            script = 'cat "$HOME/answer" > answer.json\n'
        (self.home / "during-apply").write_text(script)
        return move

    def _made(self, kind: str) -> Move:
        self.tried += 1
        if kind == "duplicate":
            others = sorted(self.measured - {self.incumbent})
            if not others:
                kind = "no_change"
            else:
                return Move(kind, others[-1], ("skipped", "duplicate", None))
        if kind not in MEASURED:
            return Move(kind, None, ("skipped", kind, None))
        score = self.score + {"better": 1, "worse": -1}.get(kind, 0)
        shown = '"fail"' if kind == "failing" else f"{score:g}"
        text = f'{{"score": {shown}, "tried": {self.tried}}}\n'
        reason = "verify_failed" if kind == "failing" else kind
        value = None if kind == "failing" else score
        return Move(kind, text, ("kept" if kind == "better" else "reverted", reason, value))

    def has_candidate(self) -> bool:
        """Whether the iteration that was killed has committed its candidate."""
        return bool(self.project.git("for-each-ref", f"refs/goalseek/demo/flight/{len(self.rows)}"))

    def landed(self, move: Move) -> None:
        """The move's record counts; of a candidate whose answers were lost, that it was interrupted."""
        if self.is_lost:
            move = INTERRUPTED
            self.is_lost = False
        self.rows.append(move.row)
        if move.kind in MEASURED and move.text:
            self.measured.add(move.text)
        if move.kind == "better" and move.text and move.row[2] is not None:
            self.score, self.incumbent = move.row[2], move.text
        self.pending = None
        self.is_gone = False

    def counted(self) -> int:
        messages = self.project.git("log", "-z", "--first-parent", "--format=%B", "refs/goalseek/demo/ledger").split(
            "\0"
        )
        lines = (message.splitlines()[-1] for message in messages if message)
        return sum(line.startswith("{") and json.loads(line)["kind"] == "iteration" for line in lines)

    def iterate(self, kind: str, *options: str) -> None:
        was_pending = self.pending is not None
        if was_pending and "--new" in options:
            self.is_lost = self.is_lost or self.has_candidate()
        move = self.offer(kind)
        self.call("iterate", "-n", "1", *options)
        self.was_killed = False
        self.landed(move)
        if not was_pending:
            assert self.project.iterations()[-1]["directions"] == self.directions

    @initialize()
    def begin(self) -> None:
        """The first baseline, by the real command line: it also says how long one takes here."""
        self.rows.append(("baseline", "measured", 1.0))
        self.runs = 1
        move = self.offer("better")
        began = time.monotonic()
        self.project.climb("iterate", "-n", "1")
        self.seconds = time.monotonic() - began
        self.landed(move)

    @rule(kind=st.sampled_from(KINDS))
    def undisturbed(self, kind: str) -> None:
        self.iterate(kind)

    @rule(kind=st.sampled_from(KINDS))
    def new_run(self, kind: str) -> None:
        self._forget_what_was_paid()
        self.iterate(kind, "--new")
        self.runs += 1

    @rule(
        kind=st.sampled_from(KINDS), share=st.floats(0.1, 1.0), victim=st.sampled_from(["tool", "group", "everything"])
    )
    def killed_at_an_instant(self, kind: str, share: float, victim: str) -> None:
        move = self.offer(kind)
        before = len(self.rows)
        started = start(self.project, "iterate", "-n", "1")
        time.sleep(share * self.seconds)
        kill(started, victim)
        self._after_a_kill(move, before)

    @rule(kind=st.sampled_from(KINDS), effect=st.sampled_from(EFFECTS), place=st.integers(1, 20))
    def killed_at_an_effect(self, kind: str, effect: str, place: int) -> None:
        move = self.offer(kind)
        before = len(self.rows)
        killed = ended(("iterate", "-n", "1"), self.project.folder, watch=(os.devnull, effect, place))
        assert killed.exit_code in (0, -signal.SIGKILL), killed
        self._after_a_kill(move, before)

    def _after_a_kill(self, move: Move, before: int) -> None:
        self.pending = move
        self.was_killed = True
        found = self.counted()
        assert found in (before, before + 1)
        if found == before + 1:
            self.landed(move)

    @rule(kind=st.sampled_from(MEASURED), asks=st.booleans())
    def while_another_one_is_at_work(self, kind: str, asks: bool) -> None:
        """A second writer is refused; a request to stop ends the first one after its iteration."""
        if self.pending:
            return  # it may need no measurement any more, and then nothing would hold the first writer
        move = self.offer(kind)
        (self.home / "during-verify").write_text(HOLD)
        started = start(self.project, "iterate", *(("--forever",) if asks else ("-n", "1")))
        try:
            until(lambda: (self.home / "held").exists() or started.poll() is not None)
            if started.poll() is None:
                self.call("iterate", expected=4)
                self.call("iterate", "--no-wait")
                self.call("baseline", expected=4)
                if asks:
                    self.call("stop")
        finally:
            (self.home / "go").touch()
            if asks and not (self.home / "held").exists():
                started.kill()  # what was under way needed no measurement, and nothing would stop it
            _, said = started.communicate(timeout=60)
            for name in ("during-verify", "held", "go"):
                (self.home / name).unlink(missing_ok=True)
        assert started.returncode == 0, said
        self.was_killed = False
        self.landed(move)

    @rule(changes_ruler=st.booleans())
    def baseline(self, changes_ruler: bool) -> None:
        """After a commit on main, of the verifier or of the writable file alone."""
        if self.pending:
            return
        path = self.project.folder / ("hidden/judge.sh" if changes_ruler else "answer.json")
        path.write_text(path.read_text() + ("# another ruler\n" if changes_ruler else "\n"))
        self.project.commit("on main")
        self.users = self.project.users()
        self.call("baseline")
        self.was_killed = False
        self.rows.append(("baseline", "measured", self.score))
        self.measured = {self.incumbent} | (set() if changes_ruler else self.measured)
        self.is_gone = False

    @rule()
    def direct(self) -> None:
        if len(self.directions) == 3 or self.pending:
            return
        text = f"direction {len(self.rows)} {len(self.directions)}"
        self.call("direct", text)
        self.directions.append(text)

    @rule()
    def delete_picture(self) -> None:
        (self.project.logs / "state.json").unlink(missing_ok=True)

    @rule(rebuilds=st.booleans())
    def delete_records(self, rebuilds: bool) -> None:
        """All beside the manifest goes: what was paid for an unfinished iteration too."""
        self.is_lost = self.is_lost or (self.pending is not None and self.has_candidate())
        shutil.rmtree(self.project.folder / ".goalseek", ignore_errors=True)
        self.directions = []
        self._forget_what_was_paid()
        self.is_gone = not rebuilds
        if rebuilds:
            self.call("audit", "--rebuild")

    @rule()
    def delete_cache(self) -> None:
        shutil.rmtree(self.home / "cache", ignore_errors=True)

    def _forget_what_was_paid(self) -> None:
        (self.home / "journal").unlink(missing_ok=True)

    @invariant()
    def everything_agrees(self) -> None:
        if not self.rows:
            return
        assert self.project.users() == self.users
        assert_paid_once()
        assert self.counted() == len(self.rows)
        if self.is_gone or self.was_killed:
            return  # refs and lines may be behind the ledger until the next command brings them there
        self.call("audit")
        if self.pending:
            return
        records = self.project.iterations()
        found = [(row["outcome"], row["reason"], row["metric"]["value"]) for row in records]
        assert found == self.rows
        assert [row["iteration"] for row in records] == list(range(len(records)))
        assert sum(row["kind"] == "run" for row in self.project.records()) == self.runs
        for ref in ("refs/goalseek/demo/tip", "goalseek/demo"):
            assert self.project.git("show", f"{ref}:answer.json") + "\n" == self.incumbent


@pytest.mark.slow
def test_whatever_happens_the_records_are_those_of_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, examples: int = 3, is_always_the_same: bool = True
) -> None:
    """benchmarks/kills.py tries others."""
    for variable in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, os.environ[variable])
    monkeypatch.setattr(Anything, "root", tmp_path, raising=False)
    retry_at_once(monkeypatch)
    bounded = settings(
        max_examples=examples,
        stateful_step_count=20,
        deadline=None,
        derandomize=is_always_the_same,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    run_state_machine_as_test(Anything, settings=bounded)
