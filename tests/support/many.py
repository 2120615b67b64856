"""Climbs with several iterations at once that are killed, and what must hold of them after it.

What is kept depends on who was first, so they are not compared with an undisturbed climb.
"""

import json
import re
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

from project import Project, home, living

NAMES = "abcde"
AT_ONCE = ("--jobs", "4")
AGENT = """\
echo "called $GOALSEEK_ITERATION $GOALSEEK_PHASE" >> "$HOME/journal"
if [ -e "$HOME/during-apply" ]; then . "$HOME/during-apply"; fi
sleep 0.$((1 + GOALSEEK_ITERATION % 3))
number=$GOALSEEK_ITERATION
name=$(echo a b c d e | cut -d ' ' -f $((1 + number % 5)))
case $((number % 8)) in
1|3|6) echo $(($(cat $name.txt) + 1)) > $name.txt; echo "$number" > "notes/$((number % 3)).txt";;
7) echo mine > other.txt;;
*) echo $(($(cat $name.txt) - number)) > $name.txt;;
esac
echo "move $number"
"""
JUDGE = """\
echo "measured $GOALSEEK_ITERATION" >> "$HOME/journal"
if [ -e "$HOME/during-verify" ]; then . "$HOME/during-verify"; fi
sleep 0.$((1 + GOALSEEK_ITERATION % 2))
total=100
for name in a b c d e; do total=$((total + $(cat $name.txt))); done
printf '{"score": %s}\\n' "$total" > "$GOALSEEK_RUN_DIR/metrics.json"
"""


def many(top: Path, iterations: int) -> Project:
    """A climb that ends at its own limit. About a third of its candidates are better; some of them conflict."""
    home("agent.sh").write_text(AGENT)
    home("journal").unlink(missing_ok=True)
    files = {f"{letter}.txt": "0\n" for letter in NAMES} | {f"notes/{number}.txt": "\n" for number in range(3)}
    manifest: dict[str, Any] = {
        "scope": {"writable": [*(f"{letter}.txt" for letter in NAMES), "notes/*"], "hidden": ["hidden/**"]},
        "search": {"stack": "none"},
        "limits": {"iterations": iterations, "stagnation": "none", "failures": "none"},
        "provider": {"name": "command", "command": ["sh", str(home("agent.sh"))]},
    }
    return Project.make(top, {**files, "hidden/judge.sh": JUDGE, "other.txt": "not the candidate's\n"}, manifest)


def kept(records: list[dict[str, Any]]) -> list[str]:
    """The commits that the branch must have, oldest first: a loser that was alone under way is on it with its revert."""
    commits = []
    for record in records:
        if record["outcome"] in ("baseline", "kept") or record["rollback_commit_hash"]:
            commits += filter(None, (record["commit_hash"], record["rollback_commit_hash"]))
    return commits


class Calls:
    """The agent's calls of a climb of which an answer was stored when it was killed; ``refuse`` those made again."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._answered: dict[int, int] = {}

    def note(self) -> None:
        """Notes what is stored now, and that nobody was asked again who had answered before."""
        self.refuse()
        called = self._count()
        for folder in self._project.run_folder(0).parent.glob("[0-9]*"):
            if any((folder / f"{name}.json").exists() for name in ("change", "rejected-change")):
                self._answered.setdefault(int(folder.name), called[int(folder.name)])

    def refuse(self) -> None:
        """Nobody was asked again whose answer was stored."""
        called = self._count()
        again = {number: called[number] for number, calls in self._answered.items() if called[number] != calls}
        assert not again, (again, self._answered)

    def _count(self) -> Counter[int]:
        journal = home("journal").read_text() if home("journal").exists() else ""
        return Counter(int(number) for number in re.findall(r"^called (\d+) apply$", journal, re.MULTILINE))


def go_on(project: Project) -> list[dict[str, Any]]:
    """The same command to the end of the climb, in an invocation that nobody kills; gives all records."""
    return project.climb("iterate", "--forever", *AT_ONCE)


def assert_sound_at_end(project: Project, iterations: int, name: str = "demo", forgotten: Collection[int] = ()) -> None:
    """All are recorded once, records and git agree, the tip is the last kept change, and nothing is left under way.

    Of the iterations ``forgotten`` there may be no record: a new run forgets the proposals of the one before it.
    """
    home_of_climb = project.folder / ".goalseek" / name
    lines = (home_of_climb / "logs" / "results.jsonl").read_text().splitlines()
    records = [record for record in map(json.loads, lines) if record["kind"] == "iteration"]
    numbers = sorted(record["iteration"] for record in records)
    missing = {*range(iterations + 1)}.difference(numbers)
    assert missing <= set(forgotten) and numbers == sorted({*range(iterations + 1)} - missing)
    assert not project.git("for-each-ref", f"refs/goalseek/{name}/flight")
    flight = home_of_climb / "runs" / "flight"
    assert not [path.name for path in flight.glob("begun*")]
    chain = project.git("rev-list", "--reverse", "--first-parent", f"goalseek/{name}").splitlines()
    assert chain == kept(records)
    assert project.git("rev-parse", f"refs/goalseek/{name}/tip") == chain[-1]
    reachable = set(project.git("rev-list", f"refs/goalseek/{name}/ledger").splitlines())
    for record in records:
        committed = {record["commit_hash"], *(attempt["commit_hash"] for attempt in record["attempts"])} - {None}
        assert committed <= reachable, record
    project.check("-m", project.manifest.name, "audit")
    assert "missing" not in project.git("fsck", "--strict", "--no-dangling")
    assert not living(home())


def candidates_in_flight(project: Project) -> set[int]:
    """The iterations under way of which there is a candidate."""
    refs = project.git("for-each-ref", "--format=%(refname)", "refs/goalseek/demo/flight").splitlines()
    return {int(ref.split("/")[-2]) for ref in refs}


def numbers_in_flight(project: Project) -> set[int]:
    """The iterations under way, with a candidate or without."""
    flight = project.run_folder(0).parent / "flight"
    return {int(path.stem.removeprefix("begun-")) for path in flight.glob("begun-*.json")}
