"""Several iterations at once: agents propose, benches measure, and one at a time lands on the tip."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from project import Project, home

import goalseek
from goalseek.git.packing import pack_when_due
from goalseek.git.repository import Repository
from goalseek.locks import Baton
from goalseek.loop import lanes
from goalseek.measurement.lane import Lane

NAMES = "abcdefgh"
JUDGE = """\
sleep "$(cat "$SECONDS_FILE" 2>/dev/null || echo 0)"
if [ -e "$TOGETHER_FILE" ] && [ $GOALSEEK_ITERATION != 0 ]; then
    touch "$TOGETHER_FILE-$GOALSEEK_ITERATION"
    while [ "$(ls "$TOGETHER_FILE"-* | wc -l)" -lt "$(cat "$TOGETHER_FILE")" ]; do sleep 0.05; done
fi
total=10
for name in a b c d e f g h; do total=$((total + $(cat $name.txt))); done
printf '{"score": %s}\\n' "$total" > "$GOALSEEK_RUN_DIR/metrics.json"
"""
NOISY = JUDGE.replace("%s}", "%s.%010d}").replace('"$total" >', '"$total" "$GOALSEEK_SEED" >')
RESULTS = "{}/repository/.goalseek/demo/logs/results.jsonl"
MANIFEST: dict[str, Any] = {"scope": {"writable": ["*.txt"], "hidden": ["hidden/**"]}, "search": {"stack": "none"}}


def begin(top: Path, judge: str = JUDGE, agent: str = "", **tables: Any) -> Project:
    """A project whose metric is the sum of eight files.

    Beside it the test may say in ``seconds`` how long the verifier takes, and in ``together`` how many candidates must
    be at their measurement before the first one ends.
    """
    project = Project.make(top, {**{f"{name}.txt": "0\n" for name in NAMES}, "hidden/judge.sh": judge})
    environment = {"set": {f"{name.upper()}_FILE": str(top.parent / name) for name in ("seconds", "together")}}
    tables = {**MANIFEST, "env": {"verify": environment}, **tables}
    if agent:
        return project.set_agent(agent, tables)
    project.set_manifest(tables)
    return project


def move(title: str, **files: object) -> dict[str, Any]:
    return {"title": title, "files": {f"{name}.txt": f"{value}\n" for name, value in files.items()}}


def tries_of(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [record for record in records if record["outcome"] != "baseline"]


def test_four_at_once_land_in_turn_each_measured_on_the_tip_that_it_lands_on(tmp_path: Path) -> None:
    project = begin(tmp_path / "repository", parallel={"landings": 20})
    (tmp_path / "together").write_text("4")
    gains = dict(zip(NAMES, (1, -1, 2, -1, 1, 1, -1, 1), strict=True))
    project.set_moves(*(move(f"try {name}", **{name: gain}) for name, gain in gains.items()))
    tries = tries_of(project.climb("iterate", "-n", "8", "--jobs", "4"))
    assert sorted(record["iteration"] for record in tries) == [*range(1, 9)]
    outcomes = {record["hypothesis_summary"]: record["outcome"] for record in tries}
    assert outcomes == {f"try {name}": "kept" if gain > 0 else "reverted" for name, gain in gains.items()}
    kept = [record for record in tries if record["outcome"] == "kept"]
    values = [10, *(record["metric"]["value"] for record in kept)]
    assert values[-1] == 16 and values == sorted(values)
    for before, record in zip([None, *kept], kept, strict=False):
        if before:  # the incumbent that it was measured against, the commit that it stands on: the landing before it
            assert record["metric"]["incumbent"] == before["metric"]["value"]
            assert record["base_commit_hash"] == record["parent_commit_hash"] == before["commit_hash"]
    moved = next(record for record in kept for attempt in record["attempts"] if attempt["reason"] == "moved")
    version, shown = moved["attempts"][0], project.check("show", str(moved["iteration"]))
    assert f"attempt    {version['commit_hash']}: moved from {version['base_commit_hash']}\n" in shown
    assert f"moved to   {moved['base_commit_hash']}, which it was measured against\n" in shown
    assert project.git("log", "--format=%s", "goalseek/demo").count("try") == 5
    assert not project.git("for-each-ref", "refs/goalseek/demo/flight")
    project.check("audit")


def test_what_is_being_measured_already_is_not_measured_beside_it(tmp_path: Path) -> None:
    waits = f"[ $GOALSEEK_ITERATION = 0 ] || until grep -q duplicate {RESULTS.format(tmp_path)}"
    project = begin(tmp_path / "repository", judge=f"{waits}; do sleep 0.05; done\n{JUDGE}")
    project.set_moves(move("once", a=1), move("twice", a=1))
    tries = sorted(tries_of(project.climb("iterate", "-n", "2", "--jobs", "2")), key=lambda record: record["iteration"])
    assert [(record["outcome"], record["reason"]) for record in tries] == [("kept", "better"), ("skipped", "duplicate")]
    assert tries[1]["why"] == "the same tree is being measured in iteration 1"
    project.check("audit")


def test_values_of_tune_are_written_into_the_tip_of_then_and_never_conflict(tmp_path: Path) -> None:
    project = begin(tmp_path / "repository", provider={"name": "tune", "sampler": "random"})
    project.write({"a.txt": "1  # goalseek: int 1..40\n"})
    project.write({"hidden/judge.sh": JUDGE.replace("cat $name.txt", "cut -d' ' -f1 $name.txt")})
    project.commit()
    (tmp_path / "together").write_text("2")
    tries = tries_of(project.climb("iterate", "-n", "4", "--jobs", "2"))
    assert [record["outcome"] for record in tries[:1]] == ["kept"]
    assert any(attempt["reason"] == "moved" for record in tries for attempt in record.get("attempts", ()))
    for record in tries:
        assert record["reason"] in ("better", "worse"), record
        value = record["hypothesis_summary"].removeprefix("line1 = ")
        assert project.git("show", f"{record['commit_hash']}:a.txt") == f"{value}  # goalseek: int 1..40"


SPOILED = JUDGE.replace("printf", 'case $(cat a.txt b.txt | tr -d "\\n") in 11) total=5;; esac\nprintf', 1)
OUTRUN = "the tip moved while it was measured, 1 time (parallel.landings)"
SECOND = {  # the judge, landings, the second's change, its end, and whether its first version moved
    "measured on the first's tip": (SPOILED, 3, {"b": 1}, ("reverted", "worse", "5 is worse than 11 by 6"), True),
    "in conflict": (
        JUDGE,
        3,
        {"a": 2},
        ("skipped", "conflict", "it conflicts with a change kept meanwhile: a.txt (contents)"),
        True,
    ),
    "outrun too often": (JUDGE, 1, {"b": 1}, ("reverted", "outrun", OUTRUN), False),
}


@pytest.mark.slow
@pytest.mark.parametrize(("judge", "landings", "change", "end", "has_moved"), SECOND.values(), ids=SECOND)
def test_of_two_winners_the_second_lands_on_the_firsts_tip_or_not_at_all(
    tmp_path: Path, judge: str, landings: int, change: dict[str, int], end: tuple[str, str, str], has_moved: bool
) -> None:
    project = begin(tmp_path / "repository", judge, parallel={"landings": landings})
    (tmp_path / "together").write_text("2")
    project.set_moves(move("first", a=1), move("second", **change))
    first, second = tries_of(project.climb("iterate", "-n", "2", "--jobs", "2"))
    assert (first["outcome"], first["attempts"]) == ("kept", [])
    assert (second["outcome"], second["reason"], second["why"]) == end
    moved = [(attempt["reason"], attempt["base_commit_hash"]) for attempt in second["attempts"]]
    assert moved == [("moved", project.git("rev-parse", "main"))] * has_moved
    commits = [second["commit_hash"], *(attempt["commit_hash"] for attempt in second["attempts"])]
    parents = project.git("log", "-1", "--format=%P", "refs/goalseek/demo/ledger").split()
    assert parents[1:] == [commit for commit in commits if commit]
    if end[1] == "worse":
        assert second["base_commit_hash"] == second["parent_commit_hash"] == first["commit_hash"]
        assert {run["seed"] for run in first["runs"]}.isdisjoint({run["seed"] for run in second["runs"]})
    project.check("audit")


@pytest.mark.slow
@pytest.mark.parametrize("is_resolved", [True, False])
def test_a_conflict_goes_back_to_its_author_once_who_sees_both_changes(tmp_path: Path, is_resolved: bool) -> None:
    agent = """\
cat > "$HOME/prompt-$GOALSEEK_ITERATION-$GOALSEEK_PHASE"
cp "$GOALSEEK_BRIEF" "$HOME/brief-$GOALSEEK_ITERATION-$GOALSEEK_PHASE"
cp a.txt "$HOME/found-$GOALSEEK_ITERATION-$GOALSEEK_PHASE"
touch "$HOME/begun-$GOALSEEK_ITERATION"
until [ -e "$HOME/begun-1" ] && [ -e "$HOME/begun-2" ]; do sleep 0.05; done
[ $GOALSEEK_ITERATION = 1 ] || until grep -q '"outcome":"kept"' "$RESULTS"; do sleep 0.05; done
if [ $GOALSEEK_PHASE = repair ]; then $RESOLVE; else echo $GOALSEEK_ITERATION > a.txt; fi
echo "idea $GOALSEEK_ITERATION"
"""
    resolve = "echo 5 > a.txt" if is_resolved else ":"
    agent = f"RESULTS={RESULTS.format(tmp_path)}\n{agent.replace('$RESOLVE', resolve)}"
    project = begin(tmp_path / "repository").set_agent(agent, MANIFEST, timeout="60s")
    first, second = tries_of(project.climb("iterate", "-n", "2", "--jobs", "2"))
    assert [attempt["reason"] for attempt in second["attempts"]] == ["moved", "conflict"]
    assert (second["reason"], second["hypothesis_summary"]) == ("better" if is_resolved else "no_change", "idea 2")
    project.check("audit")
    if not is_resolved:
        assert "which it was measured against" not in project.check("show", "2")
        return
    assert (first["metric"]["value"], second["metric"]["value"]) == (11, 15)
    assert second["parent_commit_hash"] == first["commit_hash"] and home("found-2-repair").read_text() == "1\n"
    prompt = home("prompt-2-repair").read_text()
    assert "it conflicts with a change kept meanwhile: a.txt" in prompt and "+2" in prompt and "idea 2" in prompt
    brief = json.loads(home("brief-2-repair").read_text())
    assert (brief["incumbent"], brief["best"]) == (11, 11) and "which is 11 now" in prompt


@pytest.mark.slow
def test_runs_of_the_incumbent_count_only_where_as_many_measured_at_once(tmp_path: Path) -> None:
    project = begin(tmp_path / "repository", metric={"direction": "maximize", "query": "score"})
    project.write({"hidden/judge.sh": NOISY})
    project.commit()
    project.set_moves(*(move(f"try {name}", **{name: -5}) for name in NAMES))

    def incumbent_runs(*arguments: str) -> list[int]:
        before = len(project.iterations())
        tries = tries_of(project.climb("iterate", *arguments)[before:])
        assert {record["reason"] for record in tries} == {"worse"}
        tries.sort(key=lambda record: record["iteration"])
        return [sum(run["of"] == "incumbent" for run in record["runs"]) for record in tries]

    assert incumbent_runs("-n", "1") == [0]
    beside_another = incumbent_runs("-n", "6", "--jobs", "2")  # as many are begun before the first record as may be
    assert set(beside_another) == {0, 5} and (beside_another[0], beside_another[-1]) == (5, 0)
    assert incumbent_runs("-n", "1") == [5]
    records = project.iterations()
    assert [record.get("benches") for record in records] == [None] * 2 + [2] * 6 + [None]
    known = [run["seed"] for run in json.loads(project.check("noise", "-n", "11", "--json"))["runs"] if run["before"]]
    alone = [run for record in records if "benches" not in record for run in record["runs"]]
    assert known == [run["seed"] for run in alone if run["value"] > 10]
    project.check("audit")


def test_what_was_measured_in_another_setting_before_a_kill_is_measured_anew(tmp_path: Path) -> None:
    journal = 'echo "$GOALSEEK_SLOT" >> "$HOME/measured"\n'
    second = 'if [ "$(wc -l < "$HOME/measured")" = 2 ]; then touch "$HOME/second"; sleep "$(cat "$SECONDS_FILE")"; fi\n'
    judge = journal + second + NOISY.removeprefix(JUDGE.splitlines(keepends=True)[0])
    project = begin(tmp_path / "repository", judge, metric={"direction": "maximize", "query": "score"})
    project.set_moves(move("try a", a=-5))
    (tmp_path / "seconds").write_text("0")
    project.check("baseline")
    home("measured").unlink()
    home("second").unlink()
    (tmp_path / "seconds").write_text("60")
    project.kill_when(home("second"), "iterate", "-n", "1", "--jobs", "2")
    (record,) = tries_of(project.climb("iterate", "-n", "1", "--jobs", "1"))
    assert (record["reason"], record["benches"]) == ("worse", 1)
    assert [run["of"] for run in record["runs"]] == ["candidate"]  # alone, the runs of the baseline tell enough
    assert len(home("measured").read_text().split()) == 2 + 1
    project.check("audit")


def test_packing_while_candidates_are_under_way_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside: list[int] = []

    def pack_often(repository: Repository, seq: int, warn: Callable[[str], None]) -> bool:
        count, is_packed = len(repository.flight()), pack_when_due(repository, seq, warn, every=2)
        beside.extend([count] if is_packed else [])
        return is_packed

    monkeypatch.setattr("goalseek.loop.invocation.pack_when_due", pack_often)
    project = begin(tmp_path / "repository", parallel={"agents": 3, "benches": 2, "landings": 20})
    (tmp_path / "seconds").write_text("0.2")
    project.set_moves(*(move(f"try {name}", **{name: 1}) for name in "abcd"))
    list(goalseek.iterate(goalseek.load(project.manifest), iterations=4))
    assert any(beside) and list((project.top / ".git" / "objects" / "pack").glob("*.pack"))
    assert [record["outcome"] for record in tries_of(project.iterations())] == ["kept"] * 4
    assert "missing" not in project.git("fsck", "--strict", "--no-dangling")
    project.check("audit")


def test_the_side_that_waits_is_named_by_its_average_while_every_slot_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(monotonic=lambda: 0.0)
    four = [cast(Lane, SimpleNamespace(is_held=False)) for _ in range(4)]
    monkeypatch.setattr(lanes, "time", clock)
    with Baton() as baton:
        slots = [lanes.Resource("a slot", baton, [lane]) for lane in four[:2]]
        bench = lanes.Resource("a bench", baton, four[2:])
        balance = lanes.Balance(slots, bench)
        for resource in (*slots, bench):
            resource.acquire(1, lambda: None)
        clock.monotonic = lambda: 40.0
        balance.count()
        assert str(balance) == "1.0 of 2 benches are idle: add agents or remove benches"
        slots[0].release(four[0])
        clock.monotonic = lambda: 400.0
        balance.count()
        slots[0].acquire(2, lambda: None)
        bench.acquire(2, lambda: None)
        bench.waiting.update({3, 4})
        assert str(balance) == "1.0 of 2 benches are idle: add agents or remove benches"
        clock.monotonic = lambda: 440.0
        balance.count()
        assert str(balance) == "1.0 of 2 agents wait for a bench: add benches or remove agents"
