"""Killed after any checkpoint, a climb that the same command goes on with ends as one that nobody disturbed.

Each climb here is made once, and its command runs once to its end. Then the command is killed by SIGKILL after each
thing that it stores, and runs again: records, branch, refs, artifacts, and what agent and verifier were called for must
be those of the undisturbed climb. Only a call whose answer was not stored yet may be made again.
"""

import re
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import taking_back
from case_projects import WOBBLING, asked, assert_runs_are_those_asked, cases_project, spoil
from case_projects import part as part_of_cases
from killing import agent, journaled
from many import AT_ONCE, Calls, assert_sound_at_end, go_on, many
from project import Project, copy_folder, ended, held_out, home
from taking_back import part

from goalseek.git.as_user import UsersCheckout
from goalseek.manifest.loading import load
from goalseek.project.config import open_repository
from goalseek.project.tries import find_driver, request_try
from goalseek.workspace.scope import manifest_scope

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("same_dates")]

ITERATE = ("iterate", "--forever")
STORED = re.compile(r"^refs |^(os.rename|open) .*(/runs/|/\.git/goalseek/).*\.json$")
UNSTORED = re.compile(r"/(seconds|result|env|metrics)\.json$")
ANSWERS = re.compile(r"/(rejected-)?(plan|change|evidence|review)(-\d+)?\.json")
NOISY = """\
echo "measured $GOALSEEK_ITERATION $GOALSEEK_SEED $(cat answer.json)" >> "$HOME/journal"
score=$(tr -dc 0-9 < answer.json)
printf '{"score": %s.%010d}\\n' "$score" "$GOALSEEK_SEED" > "$GOALSEEK_RUN_DIR/metrics.json"
"""
TRAIN = {"name": "train", "run": "! grep crash answer.json", "sees": "candidate"}
JUDGED = {"name": "judge", "run": "sh hidden/judge.sh", "sees": "both"}
STRAYS = "echo mine > other.txt\n"


def scores(score: object, **more: object) -> str:
    keys = "".join(f', "{key}": {value}' for key, value in more.items())
    return f"""echo '{{"score": {score}{keys}}}' > answer.json\n"""


def climb(*moves: str, more: Mapping[str, str] = MappingProxyType({}), **tables: Any) -> Project:
    """A climb in this home: each move is what its agent does when it applies, ``more`` what it does in other phases."""
    moves_of = {**{f"{number}-apply": move for number, move in enumerate(moves, 1)}, **more}
    return journaled(home("repository"), moves_of, **{"limits": {"iterations": len(moves)}, **tables})


def begun(project: Project, *words: str) -> Project:
    """The project after its first baseline, or another command: secret, run and seeds are the same in all copies."""
    project.check(*(words or ("baseline",)))
    return project


def repaired(first: str, then: str) -> Project:
    return begun(climb(first, more={"1-repair": then}, verify=[TRAIN, JUDGED]))


def reviewed() -> Project:
    says = "grep -q '\"score\": 3' && say REVIEW REJECTED || say REVIEW 'CHANGES_REQUESTED\n- it is long'"
    review = {"provider": agent("as the reviewer"), "criteria": ["It is short."]}
    return begun(climb(scores(2), more={"1-review": says, "1-repair": scores(3)}, review=review))


def stacked() -> Project:
    """Eight moves that are worse each, of which two are better together."""
    judge = """\
echo "measured $GOALSEEK_ITERATION" >> "$HOME/journal"
total=10
for name in a b c; do total=$((total + $(cat $name.txt))); done
if [ "$(cat a.txt) $(cat b.txt)" = "-1 -1" ]; then total=$((total + 7)); fi
printf '{"score": %s}\\n' "$total" > "$GOALSEEK_RUN_DIR/metrics.json"
"""
    moves = [("c", number) for number in range(91, 97)] + [("a", 1), ("b", 1), ("c", 80)]
    project = Project.make(
        home("repository"),
        {"hidden/judge.sh": judge, **{f"{name}.txt": "0\n" for name in "abc"}},
        {
            "scope": {"writable": ["*.txt"], "hidden": ["hidden/**"]},
            "search": {"stack": "always"},
            "limits": {"iterations": 10, "stagnation": "none"},
        },
    )
    project.set_moves(*({"files": {f"{name}.txt": f"-{value}\n"}} for name, value in moves))
    return begun(project, "iterate", "-n", "8")


def settled() -> Project:
    metric = {"direction": "maximize", "query": "score", "settle": 3, "window": 1}
    return begun(climb(scores(90), scores(0), judge=NOISY, metric=metric))


def looked_at() -> Project:
    return begun(climb(scores(2), **held_out("sh hidden/judge.sh", query="score")))


def rotated() -> Project:
    stuck = {f"{number}-plan": f"say PLAN 'idea {number}'\n" for number in (1, 2)}
    search = {"rotate": [agent(model="other"), agent(model="third")], "plateau": 1}
    moves = (scores(0, t=1), scores(0, t=2), scores(3))
    return begun(climb(*moves, more=stuck, search=search, provider=agent(ask_plan=True)))


def raced(noise: str = "") -> Project:
    """Two candidates that win a race over looks, the first with a run that confirms it, and one that loses it."""
    spoil(noise)
    gains = (("a", 0.25), ("b", -1), ("c", 0.25))
    moves = (part_of_cases(name, *range(16), score=gain) for name, gain in gains)
    return begun(cases_project(home("repository"), *moves, limits={"iterations": 3}))


def taken_back() -> Project:
    return taking_back.climb(home("repository"), part("a", 2), part("b", 3), part("c", 5))


def tried() -> Project:
    """Two tries wait, of which the second conflicts with the first, and a third that is worse."""
    project = begun(climb(limits={}))
    loaded = load(project.manifest)
    scope = manifest_scope(loaded, loaded.manifest, "")
    for session, score in (("a", 2), ("b", 3), ("c", 0)):
        project.write({"answer.json": f'{{"score": {score}}}\n'})
        with open_repository(loaded) as repository:
            driver = find_driver(repository, {"CODEX_THREAD_ID": session})
            request_try(repository, scope, driver, UsersCheckout(repository), f"by {session}", "")
    return project


@dataclass(frozen=True)
class Climb:
    """``more``: a pattern of effects that are places too, the first of each name; ``done``: what says it was done.

    Of its places each ``every``-th is taken, from number ``first`` on.
    """

    make: Callable[[], Project]
    commands: tuple[tuple[str, ...], ...] = (ITERATE,)
    more: str = "nothing"
    done: str = "never"
    first: int = 0
    every: int = 1


CLIMBS = {
    **{f"plain {part}": Climb(lambda: climb(scores(2)), more="", first=part, every=3) for part in range(3)},
    "rejected": Climb(lambda: begun(climb(scores(0), scores(0), STRAYS, "true\n", provider=agent(repair=0)))),
    "crash": Climb(lambda: repaired(scores(2, crash=1), scores(0)), more="/(attempts|prompts)/"),
    "strays": Climb(lambda: repaired(STRAYS + scores(3), scores(2)), more="/(attempts|prompts)/"),
    "review": Climb(reviewed, more="/reviews"),
    "stack": Climb(stacked),
    "settle": Climb(settled),
    "holdout": Climb(looked_at),
    "cases": Climb(raced, every=2),
    "cases and noise": Climb(lambda: raced(WOBBLING), first=1, every=2),
    "rotate": Climb(rotated),
    "try": Climb(tried, (("iterate", "-n", "0"),), more="", every=3),
    "approve": Climb(
        lambda: begun(climb(scores(2), scores(3), approve={"before": "kept"})),
        (ITERATE, ("approve", "1"), ITERATE, ("decline", "2"), ITERATE),
    ),
    "revert": Climb(taken_back, (("revert", "1", "--why", "not ours"),), more="", done="taken back already"),
}
VARYING = {"timestamp", "seal", "seconds", "cpu_seconds", "run_id", "seed", "usage"}
RESUMED = re.compile("an earlier invocation ended before its record|a call in [A-Z_]+ ended without an answer")


def without_varying(value: Any) -> Any:
    """What is the same in two runs of a climb: no times, hashes of commits, notes of kills and their costs."""
    if isinstance(value, dict):
        names = [key for key in value if key not in VARYING and not key.endswith("_hash")]
        return {name: without_varying(value[name]) for name in names}
    if isinstance(value, list):
        return [without_varying(part) for part in value if not (isinstance(part, str) and RESUMED.match(part))]
    return value


def outcome(project: Project) -> dict[str, Any]:
    """What there is in the end. A look at the holdout counts once it is begun, so one that was killed is left out."""
    records = [without_varying(record) for record in project.records()]
    looks = [record for record in records if record["kind"] == "holdout"]
    for look in looks:
        del look["look"], look["seq"]
    runs = project.run_folder(0).parent
    files = {path.relative_to(runs): path for path in runs.rglob("*") if path.is_file() and path.stem != "seconds"}
    return {
        "records": [record for record in records if record not in looks or record["reason"] != "begun"],
        "branch": project.git("log", "--first-parent", "--format=%T %s", "goalseek/demo").splitlines(),
        "refs": project.git("for-each-ref", "--format=%(refname) %(tree)").splitlines(),
        "artifacts": {str(name): path.read_text() if path.suffix == ".diff" else "" for name, path in files.items()},
        "user": project.users(),
    }


def journal() -> Counter[str]:
    return Counter(home("journal").read_text().splitlines() if home("journal").exists() else ())


def places(effects: Sequence[tuple[str, int]], more: str) -> Iterator[tuple[str, int, bool]]:
    """Where to kill: label, which of that label, and whether what was called last has no stored answer there."""
    seen: Counter[str] = Counter()
    answered = effects[0][1]
    for label, size in effects:
        seen[label] += 1
        is_stored = STORED.search(label) and not UNSTORED.search(label)
        if is_stored and ANSWERS.search(label):
            answered = size
        if is_stored or (seen[label] == 1 and re.search(more, label)):
            yield label, seen[label], size > answered


def watched(project: Project, log: Path, words: Sequence[str]) -> tuple[int, list[tuple[str, int]]]:
    """Runs a command to its end; gives its exit code and its effects, each with the journal's length."""
    log.unlink(missing_ok=True)
    code = ended(words, project.folder, watch=(str(log), "", 0)).exit_code
    lines = (line.rpartition("\t") for line in log.read_text().splitlines())
    return code, [(label, int(size)) for label, _, size in lines]


def killed(project: Project, before: Path, words: Sequence[str], label: str, place: int) -> int:
    """Brings the home back to what it was, runs the command and kills it there; gives its exit code."""
    shutil.rmtree(home())
    copy_folder(before, home())
    return ended(words, project.folder, watch=(str(before.parent / "effects"), label, place)).exit_code


@pytest.mark.parametrize("climb", CLIMBS.values(), ids=CLIMBS)
def test_killed_after_any_checkpoint_the_same_command_ends_as_if_nothing_had_been(climb: Climb, tmp_path: Path) -> None:
    project = climb.make()
    codes, effects = [], []
    for number, words in enumerate(climb.commands):
        copy_folder(home(), tmp_path / f"before-{number}")
        code, found = watched(project, tmp_path / "effects", words)
        codes.append(code)
        effects.append(found)
    calm, calls, ends = outcome(project), journal(), Counter[int]()
    for number, words in enumerate(climb.commands):
        for label, place, is_owed in [*places(effects[number], climb.more)][climb.first :: climb.every]:
            where = f"{words[0]} was killed after {label}, the {place}. time"
            ends[killed(project, tmp_path / f"before-{number}", words, label, place)] += 1
            for code, following in zip(codes[number:], climb.commands[number:], strict=True):
                done = project.run(*following)
                assert done.exit_code == code or climb.done in done.stderr, (where, following, done)
            for name, value in outcome(project).items():
                assert value == calm[name], (where, name)
            again = journal()
            assert calls <= again and (again - calls).total() <= is_owed, (where, again)
            if home("asked").exists():
                assert_runs_are_those_asked(project, (again - calls).total())
            project.check("audit")
    assert ends[-signal.SIGKILL] > 0.9 * ends.total() and {*ends} <= {-signal.SIGKILL, *codes}, ends


def test_a_killed_revert_is_made_or_dropped_by_another_command(tmp_path: Path) -> None:
    moves = part("a", 2), part("b", 3), part("c", 5)
    project = taken_back()
    project.set_moves(*moves, part("b", 9))
    copy_folder(home(), tmp_path / "before")
    revert = ("revert", "1", "--why", "not ours")
    _, effects = watched(project, tmp_path / "effects", revert)
    dropped = []
    for label, place, _ in places(effects, "nothing"):
        killed(project, tmp_path / "before", revert, label, place)
        record = project.climb("iterate")[-1]
        has_landed = len(project.iterations()) == 6
        assert (record["outcome"], record["metric"]["value"]) == ("kept", 15 if has_landed else 16), label
        done = project.run(*revert)
        assert done.exit_code == (2 if has_landed else 0) and ("taken back already" in done.stderr) == has_landed
        assert [made["taken_back"] for made in project.iterations() if "taken_back" in made] == [1]
        project.check("audit")
        dropped.append(not has_landed)
    assert {*dropped} == {True, False}


@pytest.mark.parametrize("noise", ["", WOBBLING], ids=["deterministic", "noisy"])
def test_a_look_that_is_killed_is_measured_again_under_its_seed_and_no_earlier_one(tmp_path: Path, noise: str) -> None:
    moves = (part_of_cases(name, *range(16), score=0.25) for name in "ab")
    project = cases_project(tmp_path / "repository", *moves, limits={"iterations": 2})
    kills = (2, 5, 7, 10)  # the second run of the baseline, two looks of the first candidate, and one of a later run
    for kill in kills:
        hang = f'(home / "asked").read_text().count("\\n") == {kill} and not (home / "hangs").touch()'
        spoil(f"import time\nif {hang}:\n    time.sleep(60)\n{noise}")
        project.kill_when(home("hangs"), *ITERATE)
        home("hangs").unlink()
    spoil(noise)
    records = project.climb(*ITERATE)
    assert [record["outcome"] for record in records] == ["baseline", "kept", "kept"]
    made = [run for number in range(3) for run in asked(number)]
    assert [place for place, (one, other) in enumerate(pairwise(made), start=1) if one == other] == [*kills]
    assert_runs_are_those_asked(project, again=len(kills))
    project.check("audit")


WINNER = """\
echo "called $GOALSEEK_ITERATION $GOALSEEK_PHASE" >> "$HOME/journal"
echo 1 > $(echo a b c d e | cut -d ' ' -f $((1 + GOALSEEK_ITERATION % 5))).txt
echo "move $GOALSEEK_ITERATION"
"""
BOTH = 'while [ $(grep -c "measured [12]" "$HOME/journal") -lt 2 ]; do sleep 0.02; done\n'


def test_four_at_once_end_sound_whatever_is_stored_while_another_winner_waits(tmp_path: Path) -> None:
    project = begun(many(home("repository"), 2))
    home("agent.sh").write_text(WINNER)
    home("during-verify").write_text(BOTH)
    copy_folder(home(), tmp_path / "before")
    _, effects = watched(project, tmp_path / "effects", (*ITERATE, *AT_ONCE))
    kills = 0
    for label, place, _ in [*places(effects, "nothing")][::3]:
        kills += killed(project, tmp_path / "before", (*ITERATE, *AT_ONCE), label, place) == -signal.SIGKILL
        calls = Calls(project)
        calls.note()
        records = go_on(project)
        calls.refuse()
        assert [record["outcome"] for record in records] == ["baseline", "kept", "kept"]
        assert_sound_at_end(project, 2)
    assert kills >= 8
