"""Climbs that are killed, and what a person has after them: the same as if nothing had been."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from project import Project, home, living

VOLATILE = {"timestamp", "run_id", "seal", "seconds", "runs", "verify", "digests", "versions"}
NOTES = (
    "a call in APPLY_CHANGE ended without an answer",
    "against the code with it",  # what was taken back
    "an earlier invocation ended before its record",
    "in APPLY_CHANGE command failed",  # each of its tries
    "waited ",
)
CHARGED = {"usage", "notes"}  # a call that was killed was paid for, and its record says so
JUDGE = """\
echo "measured $GOALSEEK_ITERATION" >> "$HOME/journal"
if [ -e "$HOME/during-verify" ]; then . "$HOME/during-verify"; fi
if grep -q fail answer.json; then exit 3; fi
cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"
"""
AGENT = """\
name=$GOALSEEK_ITERATION-$GOALSEEK_PHASE
echo "called $name" >> "$HOME/journal"
say() { printf '<<<GOALSEEK %s %s\\n%s\\nGOALSEEK %s %s>>>\\n' $1 $GOALSEEK_NONCE "$2" $1 $GOALSEEK_NONCE; }
echo "move $GOALSEEK_ITERATION"
if [ -e "$HOME/during-apply" ]; then . "$HOME/during-apply"; fi
if [ -e "$HOME/moves/$name" ]; then . "$HOME/moves/$name"; fi
"""
FILES = {"answer.json": '{"score": 1}\n', "hidden/judge.sh": JUDGE, "other.txt": "not the candidate's\n"}


WITHOUT_PAUSES = (
    "from goalseek.__main__ import main; from goalseek.providers import fallback; "
    "fallback.RETRY_SECONDS = (0.01, 0.01, 0.01); main()"
)


def agent(*words: str, **table: Any) -> dict[str, Any]:
    """The provider that does the moves of this home."""
    return {"name": "command", "command": ["sh", str(home("agent.sh")), *words], **table}


def journaled(top: Path, moves: Mapping[str, str], judge: str = JUDGE, **tables: Any) -> Project:
    """A climb whose agent and judge write into the home's journal when they are called.

    A move is what the agent does, by iteration and phase: ``{"1-apply": "echo mine > other.txt"}``.
    """
    home("moves").mkdir(exist_ok=True)
    for name, move in moves.items():
        home("moves", name).write_text(move)
    home("agent.sh").write_text(AGENT)
    home("journal").unlink(missing_ok=True)
    return Project.make(top, {**FILES, "hidden/judge.sh": judge}, {"provider": agent(), **tables})


def climbing(top: Path, iterations: int) -> Project:
    """A climb that ends at its own limit: keeps, reverts, failures, what is out of scope, nothing, the same again."""
    moves = {f"{number}-apply": _move(number) for number in range(1, iterations + 1)}
    metric = {"direction": "maximize", "query": "score"}  # decided by the rule, so that a candidate has several runs
    return journaled(top, moves, metric=metric, limits={"iterations": iterations})


def _move(number: int) -> str:
    answers = {0: number, 1: 0, 2: number, 3: f'"fail {number}"', 5: 0}
    kind = number % 8
    if kind in answers:
        return f"""echo '{{"score": {answers[kind]}, "tried": {0 if kind in (1, 5) else number}}}' > answer.json\n"""
    return {4: "echo mine > other.txt\n", 6: "", 7: "exit 7\n"}[kind]


def told(project: Project) -> list[dict[str, Any]]:
    """The records without what differs from run to run, and without what killed calls were charged."""
    for record in project.records():
        assert all(note.startswith(NOTES) for note in record.get("notes", ())), record["notes"]
    return [
        {key: value for key, value in record.items() if key not in VOLATILE | CHARGED and not key.endswith("_hash")}
        for record in project.records()
    ]


def branch(project: Project) -> list[str]:
    """The trees of the branch, newest first: they name what was proposed, kept and taken back."""
    return project.git("log", "--first-parent", "--format=%T %s", "goalseek/demo").replace("\t", " ").splitlines()


def assert_same(project: Project, calm: Project) -> None:
    """The records and the branch are those of a climb that nobody disturbed."""
    assert told(project) == told(calm) and branch(project) == branch(calm)


def chain(project: Project) -> list[str]:
    """The branch as the records say that it must be, oldest first; and each iteration is there once."""
    records = project.iterations()
    assert [record["iteration"] for record in records] == list(range(len(records)))
    commits = [record[key] for record in records for key in ("commit_hash", "rollback_commit_hash") if record[key]]
    return list(dict.fromkeys(commits))


def assert_sound(project: Project) -> None:
    """The repository is whole, records and git agree, and nobody was paid twice for what was already measured."""
    project.check("audit")
    assert "missing" not in project.git("fsck", "--strict", "--no-dangling")
    expected = chain(project)
    assert (
        project.git("rev-list", "--reverse", "--first-parent", "goalseek/demo").splitlines()[-len(expected) :]
        == expected
    )
    assert_paid_once()


def assert_paid_once() -> None:
    """The agent is not called again for an iteration of which the measurement had begun."""
    measured: set[str] = set()
    for line in home("journal").read_text().splitlines() if home("journal").exists() else ():
        what, number = line.partition("-")[0].split(" ")
        assert what == "measured" or number not in measured, f"called again for {number}, after it was measured"
        if what == "measured":
            measured.add(number)


def forget_picture(project: Project) -> None:
    (project.logs / "state.json").unlink(missing_ok=True)


def kill(started: subprocess.Popen[str], target: str) -> bool:
    """Kills the ``tool`` alone, its process ``group``, or ``everything`` of this home; whether it was still at work."""
    was_at_work = started.poll() is None
    with contextlib.suppress(ProcessLookupError):
        if target == "group":
            os.killpg(started.pid, signal.SIGKILL)
        else:
            started.kill()
    for pid in living(home()) if target == "everything" else ():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    started.communicate(timeout=120)
    return was_at_work


def start(project: Project, *arguments: str, before: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    """Starts goalseek as the leader of a process group, so that the group can be killed.

    An agent that failed is asked again at once.
    """
    return project.start(*arguments, before=before, process_group=0, program=("-c", WITHOUT_PAUSES))
