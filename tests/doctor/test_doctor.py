"""``goalseek doctor`` on real repositories: what it finds, what it costs, and what it leaves behind."""

import fcntl
import re
from pathlib import Path
from typing import Any

import pytest
from doctor_cases import JUDGE, Ended, crosses, findings, make_case
from msgspec.structs import replace
from noisy import METRIC
from project import Project, answer

from goalseek.doctor.doctor import GARBAGE, describe_numbers
from goalseek.evaluation.measurements import MeasuredValue
from goalseek.manifest.exposure import fixed_seed_line
from goalseek.manifest.loading import load
from goalseek.manifest.tables import Holdout, Manifest
from goalseek.values import Finding


def bad(ended: Ended) -> list[str]:
    return list(dict.fromkeys(one["name"] for one in crosses(ended)))


def test_a_fit_project_is_well_no_number_is_measured_twice_and_nothing_broken_stays(tmp_path: Path) -> None:
    case = make_case(tmp_path)
    first, count = case.run("doctor"), case.count()
    assert first.exit_code == 0 and "✗" not in first.stdout
    assert "✓ verifier     score = 5 (" in first.stdout
    assert "2 runs of the verifier" in first.stderr and "the first will show" in first.stderr
    assert count == 3, "two numbers, and one run with a broken candidate"
    reachable = [line.split()[0] for line in case.git("rev-list", "--all", "--objects").splitlines()]
    assert not any(GARBAGE.decode().strip() in case.git("cat-file", "-p", name) for name in reachable)
    assert {record["tree"] for record in case.records()} == {case.git("rev-parse", "HEAD^{tree}")}
    (tree,) = (case.home / "cache/goalseek").glob("*/bench/tree")
    assert (tree / "answer.txt").read_text() == "5\n"
    assert case.git("status", "--porcelain") == ""
    second = case.run("doctor")
    assert case.count() == 4, "the second time, only the sabotage"
    assert "of the verifier" not in second.stderr and "one takes about" in second.stderr
    assert second.stdout.count("measured before") == 2
    assert case.run("baseline").exit_code == 0
    assert case.count() == 5, "the baseline takes what doctor measured, and runs once more"
    assert [record["kind"] for record in case.records()] == ["measurement", "measurement", "run", "iteration"]
    runs = case.records()[-1]["runs"]
    assert [run["value"] for run in runs] == [5.0, 5.0, 5.0] and len({run["seed"] for run in runs}) == 3
    case.manifest.write_text(f'{case.manifest.read_text()}[provider]\nname = "scripted"\n')
    (case.folder / "moves.toml").write_text('[[move]]\ntitle = "six"\nfiles = { "answer.txt" = "6\\n" }\n')
    case.commit()
    assert case.run("iterate").exit_code == 0
    before = case.count()
    ended = case.run("doctor")
    assert (ended.exit_code, case.count() - before) == (0, 2) and "score = 6" in ended.stdout
    assert case.records()[-1]["kind"] == "measurement", "of the incumbent, once more"
    assert case.run("iterate").exit_code == 0
    assert case.records()[-1]["iteration"] == 2


def test_of_several_benches_only_one_measures_and_a_time_keeps_to_one(tmp_path: Path) -> None:
    case = make_case(tmp_path, more="[parallel]\nbenches = 3\n")
    ended = case.run("doctor", "--json")
    assert "benches" not in findings(ended) and (case.count(), len(case.records())) == (2 + 1, 2)
    text = (case.folder / "goalseek.toml").read_text().replace('direction = "maximize"', 'direction = "minimize"')
    case.write(goalseek_toml=re.sub("regex = '.*'", 'source = "wall", command = "judge"', text))
    (finding,) = findings(case.run("doctor", "--quick", "--json"))["benches"]
    assert finding["text"] == "parallel.benches = 3, but times are measured one at a time: one bench"


SURVIVES = 'if grep -qx 5 answer.txt; then echo "score: {}"; else echo "score: {}"; fi'
CONSTANT = 'echo ran >> "{runs}"; echo "score: 5"'
NOISY = 'echo ran >> "{runs}"; read value < answer.txt; test "$value" -ge 0; set -- $(wc -l "{runs}"); '
NOISY += 'echo "score: $((100 + $1))"; test "$value" = 5'
GUARD = "[[guard]]\nname = 'limit'\nregex = 'score: (.*)'\nsource = 'stdout'\nmin = 10"
UNREAD = "the verifier does not read the candidate: .*; make the verifier run or read the writable files"
FILLED = "^every writable file filled with garbage"
BETTER = f"^garbage is better than your code: {FILLED[1:]}: the number goes to 135 from 96; is metric.direction = "
LUCK = "a candidate that changes nothing can win: .* The metric is noisy.*set metric.min_delta"
COST = "up to 16 if it is not.*settling at the end takes 10 runs"
SLOW = pytest.mark.slow
VERIFIERS = {
    "survives": (SURVIVES.format(5, 0), {}, "", {"sabotage": f"{FILLED}: the number goes to 0; $"}),
    "there": ('test -f answer.txt && echo "score: 5"', {}, "", {"sabotage": "^every writable file deleted.*; $"}),
    "random": ('echo "score: $GOALSEEK_SEED"', {}, "sabotage", {"sabotage": UNREAD}),
    "constant": (CONSTANT, {}, "sabotage", {"sabotage": UNREAD}),
    "better": (SURVIVES.format(96, 135), {}, "sabotage", {"sabotage": BETTER}),
    "by little": (SURVIVES.format(96, 135), {"metric": ", min_delta = 200"}, "", {"sabotage": FILLED}),
    "not valid": (SURVIVES.format(96, 135), {"metric": ", valid = [90, 100]"}, "", {"sabotage": FILLED}),
    "noisy": (NOISY, {}, "", {"noise": "run again, in turn with the incumbent", "cost": COST}),
    "no noise": (NOISY, {"metric": ', noise = "none"'}, "unchanged", {"unchanged": LUCK}),
    "less noisy": (NOISY, {"metric": ", min_delta = 10"}, "", {"unchanged": "noisy, but less than min_delta"}),
    "guard": (JUDGE, {"more": GUARD}, "guard", {"guard": r"limit is 5, below its minimum, 10; .*\[\[guard\]\]"}),
    "out of range": (JUDGE, {"metric": ", valid = [0, 1]"}, "verifier", {"verifier": "outside its valid range.*; ."}),
    "fails": ("echo made of cheese >&2; exit 3", {}, "verifier", {"verifier": "made of cheese.*; ."}),
    "timeout": ("exec sleep 30", {"verify": 'timeout = "1s"'}, "verifier", {"verifier": "took over 1.0s.*; ."}),
    "nothing": ("echo nothing to read", {}, "verifier", {"verifier": "no match.*; ."}),
    "nan": ("echo score: nan", {}, "verifier", {"verifier": "nan.*; ."}),
}
SLOW_ONES = ("fails", "timeout", "nothing", "nan")


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(one, marks=[SLOW] * (one in SLOW_ONES)) for one in VERIFIERS])
def test_what_a_verifier_is_found_to_be(tmp_path: Path, name: str) -> None:
    judge, how, cross, told = VERIFIERS[name]
    case = make_case(tmp_path, judge, **how)
    ended = case.run("--json", "doctor")
    assert (ended.exit_code, bad(ended)) == ((1, [cross]) if cross else (0, [])), ended.stdout
    found = findings(ended)
    for place, pattern in told.items():
        assert re.search(pattern, f"{found[place][0]['text']}; {found[place][0]['remedy']}", re.DOTALL), found[place]
    if cross in ("verifier", "sabotage"):
        assert case.traces() == []
    else:
        assert len(case.records()) == 2, "the numbers are good, whatever the rule is"
    assert name != "constant" or case.count() == 5, "two numbers and three breakages"


def test_who_may_propose_is_said_and_a_provider_that_cannot_start_is_found_while_the_rest_is_tried(
    tmp_path: Path,
) -> None:
    case = make_case(tmp_path)

    def told(*options: str, **files: str) -> dict[str, Any]:
        case.write(**files)
        case.commit()
        ended = case.run("--json", "doctor", *options)
        found = findings(ended)["provider"][0]
        assert bad(ended) == ([] if found["ok"] else ["provider"])
        return found

    (found,) = findings(case.run("--json", "doctor", "--quick"))["provider"]
    agent = "goalseek iterate --provider NAME takes an agent (goalseek help agents)"
    assert found["ok"] and found["remedy"] == f"{agent}, or your own program (goalseek help providers)"
    text = case.manifest.read_text()
    scripted, tune = 'name = "scripted"\nscript = "gone.toml"', 'name = "tune"'
    assert "gone.toml" in told("--quick", goalseek_toml=f"{text}[provider]\n{scripted}\n")["text"]
    assert "no constant is marked" in told("--quick", goalseek_toml=f"{text}[provider]\n{tune}\n")["text"]
    found = told("--quick", goalseek_toml=text, answer_txt="5  # goalseek: int 1..9\n")
    assert found["remedy"].startswith("goalseek iterate --provider tune, or your own program")
    program = 'name = "command"\ncommand = ["no-such-agent"]'
    assert "no-such-agent" in told(goalseek_toml=f"{text}[provider]\n{program}\n", answer_txt="5\n")["text"]
    assert case.count() == 3


def told_of(
    manifest: Manifest, place: str, *made: tuple[float, float], recorded: tuple[float | None, ...] = ()
) -> list[Finding]:
    """What is said of two runs, each a value and its seconds."""
    known = [MeasuredValue(value, {}, (), seconds) for value, seconds in made]
    return [one for one in describe_numbers(manifest, known, recorded) if one.place == place]


def test_a_share_of_few_cases_is_repeatable_and_not_general(tmp_path: Path) -> None:
    manifest = load(make_case(tmp_path).manifest).manifest
    few, many = (replace(manifest, metric=replace(manifest.metric, examples=count)) for count in (8, 100))
    text = "1 case of 8 is a step of 0.125: it repeats, but other cases may differ"
    for of, value, other, recorded, is_told in (
        (few, 0.375, 0.375, (), True),
        (manifest, 0.5, 0.5, (None, 0.625, 1.0), True),
        (manifest, 0.375, 0.375, (), False),
        (many, 0.5, 0.5, (0.625, 1.0), False),
        (manifest, 0.375, 0.375, (0.4567,), False),
        (manifest, 0.375, 0.5, (), False),
        (manifest, 1.375, 1.375, (), False),
        (replace(few, holdout=Holdout(command="final")), 0.375, 0.375, (), False),
    ):
        found = told_of(of, "steps", (value, 1.0), (other, 1.0), recorded=recorded)
        assert [one.text for one in found] == [text] * is_told


def test_equal_numbers_of_long_runs_are_a_hint_of_a_fixed_seed(tmp_path: Path) -> None:
    manifest = load(make_case(tmp_path).manifest).manifest
    manifest = replace(manifest, metric=replace(manifest.metric, source="wall"))
    (found,) = told_of(manifest, "seed", (5.0, 6.0), (5.0, 7.0))
    assert found.ok and "pass $GOALSEEK_SEED on, or the climb will fit that one seed" in found.remedy
    assert not told_of(manifest, "seed", (5.0, 1.0), (5.0, 1.0)) + told_of(manifest, "seed", (5.0, 6.0), (6.0, 7.0))
    for value, is_told in ((5.5, False), (6.0, True)):
        remedies = [one.remedy for one in told_of(manifest, "noise", (5.0, 6.0), (value, 7.0)) if one.ok]
        assert ('metric.source = "cpu"' in remedies) == is_told


def test_code_that_fixes_a_seed_is_named_by_doctor_by_noise_and_at_the_baseline(project: Project) -> None:
    project.write({"train.py": "import random\n\n# random.seed(1)\nrandom.seed(7)\n", "hidden/s.py": "seed(8)\n"})
    scope = {"writable": ["answer.json"], "hidden": ["hidden/**"]}
    first = {"name": "train", "run": "true train.py; cp answer.json out.json", "outputs": ["out.json"]}
    judge = {"name": "judge", "run": 'cp out.json "$GOALSEEK_RUN_DIR/metrics.json"', "sees": "hidden"}
    project.set_manifest({"scope": scope, "verify": [first, judge]})
    project.commit("seeded")
    where = "the same number under every GOALSEEK_SEED: train.py:4 fixes a seed"
    remedy = "draw it from $GOALSEEK_SEED, or you will climb on that seed"
    (found,) = findings(project.run("--json", "doctor"))["seed"]
    assert (found["ok"], found["text"], found["remedy"]) == (True, where, remedy)
    project.set_moves(answer(2))
    assert f"{where}; {remedy}" in project.run("noise", "-n", "2").stdout
    baseline, *others = project.climb("iterate", "-n", "1")
    assert baseline["notes"] == [f"{where}; {remedy}"] and not others[0]["notes"]
    project.set_manifest({"scope": scope, "verify": [first, judge], "metric": {**METRIC, "allow_fixed_seed": True}})
    project.commit("meant")
    assert "fixes a seed" not in project.run("baseline").stderr


def test_a_seed_that_is_a_number_in_the_code_is_found() -> None:
    fixed = ("np.random.seed(0)", "split(random_state=42)", "torch.manual_seed( 3 )", "std::srand(1);")
    drawn = ("random.seed(int(os.environ['GOALSEEK_SEED']))", "default_rng(seed)  # not default_rng(1)", "// srand(1);")
    for text in (*fixed, "rng = np.random.default_rng(5)"):
        assert (fixed_seed_line(text), fixed_seed_line(f"x\n{text}")) == (1, 2), text
    assert [fixed_seed_line(text) for text in drawn] == [None] * 3


def test_quick_runs_no_verifier_and_an_unfit_repository_none_either(tmp_path: Path) -> None:
    case = make_case(tmp_path)
    found = findings(case.run("--json", "doctor", "--quick"))
    assert "1 writable file (answer.txt), 1 read-only file (judge.sh)" in found["globs"][0]["text"]
    assert case.git("status", "--porcelain", "--ignored") == ""
    case.write(judge_sh="exit 1\n")
    ended = case.run("--json", "doctor")
    assert (ended.exit_code, bad(ended)) == (1, ["committed"])
    assert "judge.sh" in findings(ended)["committed"][0]["text"]
    text = (case.folder / "goalseek.toml").read_text()
    case.write(goalseek_toml=text.replace('["answer.txt"]', '["answer.txt", "nope/**"]').replace('"judge.sh"]', '"x"]'))
    case.commit()
    ended = case.run("--json", "doctor")
    assert ended.exit_code == 1
    assert [one["ok"] for one in findings(ended)["globs"]] == [False, False]
    assert "'nope/**'" in findings(ended)["globs"][0]["text"]
    case.write(goalseek_toml=re.sub(r"(?m)^scope.read_only = .*$", "", text))
    case.commit()
    told = findings(case.run("doctor", "--quick", "--json"))["globs"][0]["text"]
    assert told == "every glob matches: 1 writable file (answer.txt); kept from the agent as well: goalseek.toml"
    case.write(goalseek_toml=text.replace('["answer.txt"]', '["**"]'), AGENTS_md="be strict\n")
    case.commit()
    told = findings(case.run("doctor", "--quick", "--json"))["globs"][0]["text"]
    assert told.endswith("; agents take instructions from it, so no candidate changes it: AGENTS.md"), told
    assert (case.count(), case.traces()) == (0, [])


@pytest.mark.parametrize(
    ("code", "remedy"), [(75, "wait: a run does so by itself"), (77, "log in"), (1, "run it by hand")]
)
def test_a_live_call_without_an_answer_has_the_remedy_of_what_it_means(tmp_path: Path, code: int, remedy: str) -> None:
    case = make_case(tmp_path)
    text = (case.folder / "goalseek.toml").read_text()
    agent = f'name = "command"\ncommand = ["sh", "-c", "exit {code}"]\n'
    case.write(goalseek_toml=f"{text}[provider]\n{agent}")
    case.commit()
    ended = case.run("--json", "doctor", "--live")
    assert bad(ended) == ["live"] and findings(ended)["live"][0]["remedy"].startswith(remedy), ended


def test_a_lock_that_is_held_and_a_manifest_that_does_not_load_are_errors_and_no_repository_is_a_finding(
    tmp_path: Path,
) -> None:
    case = make_case(tmp_path)
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "goalseek.toml").write_bytes((case.folder / "goalseek.toml").read_bytes())
    ended = case.run("--json", "doctor", folder=bare)
    assert (ended.exit_code, bad(ended)) == (1, ["repository"])
    assert [path.name for path in bare.iterdir()] == ["goalseek.toml"]
    own = case.folder / ".git/goalseek/demo"
    own.mkdir(parents=True)
    with (own / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert case.run("doctor").exit_code == 4
    case.write(goalseek_toml="version = 2\n")
    ended = case.run("doctor")
    assert ended.exit_code == 2 and "version" in ended.stderr
