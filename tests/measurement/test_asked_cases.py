"""The protocol of a metric of cases: what a verifier is asked, what it may answer, and what a wrong answer comes to."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from case_projects import COUNT, IDS, METRIC, RUN, asked, cases_project, files, right, scored, spoil, tables, unpacked
from project import Project, Projects, home
from skips import levels

from goalseek.statistics.cases import order_of

Made = Callable[..., Project]
NUMBERS = tuple(range(100, 100 + COUNT))
# The judge answers all, whatever it is asked.
ALL = 'document = {"results": [{"id": id, "score": answers.get(id, 0)} for id in every]}\n'


def climb(made_once: Made, top: Path, *moves: Any, **how: Any) -> Project:
    """A project after its baseline, with these moves before it; ``how`` is that of ``cases_project``."""
    project = made_once(begin, top / "repository", **how)
    project.set_moves(*moves)
    return project


def begin(top: Path, **how: Any) -> Project:
    project = cases_project(top, **how)
    project.check("baseline")
    return project


LIST = '{"results": rows}'
FORMS = {
    "list": ("results", LIST, IDS, "metrics.json"),
    "projection": ("results[*].{id: name, score: points}", RENAMED := (
        '{"results": [{"name": row["id"], "points": row["score"], "more": 1} for row in rows]}'
    ), IDS, "metrics.json"),
    "mapping": ("scores", '{"scores": {row["id"]: row["score"] for row in rows}}', IDS, "metrics.json"),
    "numbers": ("results", LIST, NUMBERS, "metrics.json"),
    "whole document": ("@", "rows", IDS, "metrics.json"),
    "lines": ("[*].{id: id, score: score}", "rows", IDS, "scores.jsonl"),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_cases_are_a_list_or_a_mapping_and_ids_numbers_or_text(make_project: Projects, form: Any) -> None:
    query, document, ids, path = form
    judge = files()["hidden/judge.py"].replace('document = {"results": rows}', f"document = {document}")
    judge = judge.replace('"metrics.json"', f'"{path}"')
    if path.endswith("l"):
        judge = judge.replace("json.dumps(document)", '"".join(json.dumps(row) + "\\n" for row in document)')
    project = make_project(files=files(ids, judge), manifest=tables({"cases": query, "path": path}))
    project.set_moves(scored({str(id): 0.75 for id in ids[:14]}))
    baseline, kept = project.climb("iterate", "-n", "1")
    assert baseline["case_ids"] == [*map(str, ids)] and baseline["metric"]["value"] == 0
    assert (kept["outcome"], kept["reason"]) == ("kept", "better")
    assert kept["metric"]["value"] == kept["metric"]["delta"] == 0.65625
    assert kept["metric"]["cases"] == {"won": 14, "lost": 0, "tied": 2, "run": 16, "of": 16, "t": 3.7417, "cost": 2.0}


def test_a_run_is_asked_for_its_look_in_the_order_that_its_seed_gives(made_once: Made, tmp_path: Path) -> None:
    project = climb(made_once, tmp_path, right(*range(14)), right(*range(13)), right(*range(14)))
    baseline, kept, worse, again = project.climb("iterate", "-n", "3")
    for record in (kept, worse):
        runs = asked(record["iteration"])
        assert [seed for seed, _ in runs] == [run["seed"] for run in record["runs"]]
        order = [baseline["case_ids"][case] for case in order_of(COUNT, record["runs"][0]["seed"])]
        given = [id for _, ids in runs for id in ids or ()]
        assert given == (order + order)[: len(given)] and given != sorted(given)
        assert [len(unpacked(run)) for run in record["runs"]] == [len(ids or ()) for _, ids in runs]
    looks = [len(unpacked(run)) for run in kept["runs"]]
    assert looks in ([2, 2, 4, 8, 16], [4, 4, 8, 16]), "an eighth, or a quarter if a command takes long to start"
    assert worse["metric"]["cases"]["won"] == 0 and len(unpacked(worse["runs"][-1])) <= 8
    assert again["reason"] == "no_change"


def test_a_first_run_is_asked_for_nothing_and_the_second_for_an_eighth(tmp_path: Path) -> None:
    project = cases_project(tmp_path / "repository")
    project.check("baseline")
    (record,) = project.iterations()
    all_of_them, eighth, rest = (ids or [] for _, ids in asked(0))
    assert not all_of_them and len(eighth) == 2 and sorted(eighth + rest) == sorted(IDS)
    assert [len(unpacked(run)) for run in record["runs"]] == [16, 2, 14]
    assert record["why"].endswith("16 cases twice, each the same")


SHOWN = 'echo "{}: ${{GOALSEEK_CASES-none}} below $PWD"; cat "${{GOALSEEK_CASES:-/dev/null}}"; echo "end of {}"\n'
WRITES = '({} >> "$GOALSEEK_CASES") 2> /dev/null && echo "written by {}"\ntrue\n'
SCORE = """\
import json, os
asked = os.environ.get("GOALSEEK_CASES")
ids = open(asked).read().splitlines() if asked else ["ä b", "c/d", "#"] + [f"e{number}" for number in range(13)]
value = int(open("out/value.txt").read())
json.dump({id: value for id in ids}, open(os.environ["GOALSEEK_RUN_DIR"] + "/metrics.json", "w"))
"""


@pytest.mark.parametrize("mode", levels("none", "landlock", "bubblewrap"))
def test_every_command_gets_the_file_but_one_that_runs_once_and_none_can_write_it(
    mode: str, make_project: Projects
) -> None:
    shell = {name: SHOWN.format(name, name) for name in ("once", "build", "score")}
    shell["build"] += WRITES.format("echo more", "build")
    shell["score"] += WRITES.format(":", "score")
    build = "mkdir -p out && cp answer.json out/value.txt\n" + shell["build"]
    project = make_project(
        files={"answer.json": "1\n", "build.sh": build, "once.sh": shell["once"], "hidden/score.py": SCORE,
               "hidden/score.sh": shell["score"]},
        manifest={
            "metric": {**METRIC, "cases": "@"},
            "verify": [
                {"name": "once", "run": "sh once.sh", "sees": "candidate", "once": True},
                {"name": "build", "run": "sh build.sh", "sees": "candidate", "outputs": ["out/*"]},
                {"name": "score", "run": f"sh hidden/score.sh; {RUN.replace('judge', 'score')}", "sees": "hidden"},
            ],
            "sandbox": {"mode": mode},
        },
    )  # fmt: skip
    project.set_moves("2\n")
    baseline, kept = project.climb("iterate", "-n", "1")
    assert kept["outcome"] == "kept" and kept["metric"]["cases"]["won"] == 16
    for number, record in enumerate((baseline, kept)):
        log = (project.run_folder(number) / "verifier.log").read_text()
        assert [f"written by {name}" in log for name in ("build", "score")] == 2 * [mode == "none"]
        runs = re.split(r"^\[run \d+: \w+, seed \d+\]$", log, flags=re.MULTILINE)[1:]
        for place, (run, text) in enumerate(zip(record["runs"], runs, strict=True)):
            shown = dict(re.findall(r"^(\w+: \S+) below \S+\n(.*?)^end of", text, re.MULTILINE | re.DOTALL))
            is_first = number == 0 and place == 0
            once = {"once: none": ""} if place == 0 else {}  # a candidate's runs have its files of the first
            if is_first:
                assert shown == {**once, "build: none": "", "score: none": ""}
                continue
            order = order_of(COUNT, record["runs"][0]["seed"])
            ids = [baseline["case_ids"][case] for case in order if case in unpacked(run)]
            (file,) = {name.partition(": ")[2] for name in shown if "once" not in name}
            lines = "".join(f"{id}\n" for id in ids)
            assert shown == {**once, f"build: {file}": lines, f"score: {file}": lines}
            places = re.findall(r" below (\S+)$", text, re.MULTILINE)
            assert not any(Path(file).is_relative_to(place) for place in places), "it is none of a tree's files"
            assert not Path(file).is_relative_to(project.top)


PLANTS = {
    "folder": 'rm -rf "$GOALSEEK_CASES"; mkdir "$GOALSEEK_CASES"',
    "link": 'ln -sf "$HOME/mine" "$GOALSEEK_CASES"',
    "link beside it": 'ln -sf "$HOME/mine" "$GOALSEEK_CASES.new"',
    "folder as link": 'rm -rf "$(dirname $GOALSEEK_CASES)"; ln -s "$HOME" "$(dirname $GOALSEEK_CASES)"',
    "in its run folder": 'cd "$GOALSEEK_RUN_DIR/.."; for name in cases cases.txt ids.txt; do ln -s "$HOME/mine" $name; done',
    "run folder as link": 'rm -rf "$GOALSEEK_RUN_DIR"; ln -s "$HOME" "$GOALSEEK_RUN_DIR"',
}


@pytest.mark.slow
def test_what_a_candidate_leaves_in_its_place_changes_nothing(make_project: Projects) -> None:
    """At ``mode = "none"``, where nothing but the order of the commands protects it."""
    score = files()["hidden/judge.py"].replace("pathlib.Path()", 'pathlib.Path("out")')
    build = {"name": "build", "run": "sh build.sh", "sees": "candidate", "outputs": ["out/*"]}
    judge = {"name": "judge", "run": RUN, "sees": "hidden"}
    copies = "mkdir -p out; cp answer.json out\n"
    project = make_project(
        files={**files(judge=score), "build.sh": copies},
        manifest=tables(verify=[build, judge], scope={"writable": ["*.json", "build.sh"], "hidden": ["hidden/**"]}),
    )
    home("mine").write_text("the user's\n")
    project.set_moves(
        *({"title": name, "files": {"build.sh": f"{copies}({plant})\n"}} for name, plant in PLANTS.items())
    )
    records = project.climb("iterate", "-n", str(len(PLANTS)))[1:]
    assert home("mine").read_text() == "the user's\n" and not (home() / "metrics.json").exists()
    for name, record in zip(PLANTS, records, strict=True):
        assert record["reason"] in ("tie", "within_noise") and record["metric"]["cases"]["run"] > 0, name
        runs = [ids for _, ids in asked(record["iteration"])]
        assert [len(ids or ()) for ids in runs] == [len(unpacked(run)) for run in record["runs"]], name


def test_a_verifier_that_answers_all_has_no_race_and_pairs_all_the_same(tmp_path: Path) -> None:
    spoil(ALL)
    project = cases_project(tmp_path / "repository", right(*range(14)), right(*range(13)))
    baseline, kept, worse = project.climb("iterate", "-n", "2")
    assert [len(unpacked(run)) for record in (baseline, kept, worse) for run in record["runs"]] == [16] * 5
    assert kept["metric"]["cases"] == {"won": 14, "lost": 0, "tied": 2, "run": 16, "of": 16, "t": 3.7417, "cost": 2.0}
    assert worse["metric"]["cases"] == {"won": 0, "lost": 1, "tied": 15, "run": 16, "of": 16, "t": -1.0, "cost": 1.0}
    assert (worse["metric"]["value"], worse["metric"]["delta"]) == (0.8125, -0.0625)


def test_null_for_what_was_not_asked_is_no_answer_and_a_race_goes_on(tmp_path: Path) -> None:
    spoil('rows += [{"id": id, "score": None} for id in every if id not in ids]\n')
    project = cases_project(tmp_path / "repository", scored(dict.fromkeys(IDS, -1)))
    _, worse = project.climb("iterate", "-n", "1")
    assert worse["reason"] == "worse" and worse["metric"]["cases"]["run"] <= 8


def test_without_a_race_every_run_is_of_all_cases(tmp_path: Path) -> None:
    project = cases_project(tmp_path / "repository", right(*range(14)), right(*range(13)), metric={"race": "off"})
    project.check("iterate", "-n", "2")
    assert [len(ids or IDS) for number in range(3) for _, ids in asked(number)] == [16] * 5


def test_a_known_case_that_was_not_asked_is_dropped(made_once: Made, tmp_path: Path) -> None:
    project = climb(made_once, tmp_path, scored(dict.fromkeys(IDS, -1)))
    spoil('rows += [{"id": id, "score": 1} for id in every if id not in ids][:3]\n')
    record = project.climb("iterate", "-n", "1")[-1]
    given = [ids for _, ids in asked(1)]
    assert [len(unpacked(run)) for run in record["runs"]] == [len(ids or ()) for ids in given]
    assert record["metric"]["cases"]["won"] == 0 and {run["value"] for run in record["runs"]} == {-1.0}


FAULTS = {
    "unknown": ('rows[0]["id"] = "q99"', "no_metric", "metrics.json has 1 case that the baseline did not have"),
    "twice": ("rows.append(dict(rows[0]))", "no_metric", r"metrics.json has the id of case \d+ twice"),
    "key twice": ('document = {"results": {}}\nbefore, json.dumps = json.dumps, lambda value: '
                  """'{"results": {"q1": 1, "q1": 0}}' if value == document else before(value)""",
                  "no_metric", 'metrics.json has the key "q1" twice; write it once'),
    "nan": ('rows[0]["score"] = float("nan")', "not_finite", r"the score of case 1 is nan"),
    "infinite": ('rows[0]["score"] = -float("inf")', "not_finite", r"the score of case 1 is -inf"),
    "large": ('rows[0]["score"] = 1e39', "no_metric", r"the score of case 1 is beyond 1e\+38"),
    "text": ('rows[0]["score"] = "1"', "no_metric", r'the score of case 1: "1" is a text, not a number'),
    "list": ('rows[0]["score"] = [1]', "no_metric", r"the score of case 1: \[1\] is a list, not a number"),
    "line end": (r'rows[0]["id"] = "q\n1"', "no_metric", r'"q\\n1" is no id of a case: a number, or one line of text'),
    "separator": (r'rows[0]["id"] = "q\u2028"', "no_metric", r"is no id of a case: a number, or one line of text"),
    "line end at the end": (r'rows[0]["id"] += "\n"', "no_metric", "is no id of a case: a number, or one line of text"),
    "no text": (r'document = {"results": [{"id": "\ud800", "score": 1}]}', "no_metric", "is no id of a case: a number, or one line of text"),
    "empty id": ('rows[0]["id"] = ""', "no_metric", '"" is no id of a case: a number, or one line of text'),
    "no id": ('rows[0]["id"] = None', "no_metric", "null is no id of a case: a number, or one line of text"),
    "boolean id": ('rows[0]["id"] = True', "no_metric", "true is no id of a case: a number, or one line of text"),
    "fraction as id": ('rows[0]["id"] = 1.5', "no_metric", "1.5 is no id of a case: a number, or one line of text"),
    "empty": ("rows.clear()", "no_metric", r"\d of \d cases got no score, asked twice"),
    "pairs": ('document["results"] = [[row["id"], 1] for row in rows]', "no_metric",
              """'results' in metrics.json is neither a mapping of ids to scores nor a list of {"id", "score"}"""),
    "without a score": ('del rows[0]["score"]', "no_metric", """nor a list of {"id", "score"}"""),
    "number": ('document["results"] = 3', "no_metric", "'results' in metrics.json is neither a mapping"),
    "query": ('document = {"other": 1}', "no_metric", """metrics.json has no 'results'; it has: other"""),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_wrong_answer_fails_the_run_in_one_sentence(made_once: Made, tmp_path: Path, fault: Any) -> None:
    code, reason, sentence = fault
    project = climb(made_once, tmp_path, right(*range(14)))
    spoil(code + "\n")
    record = project.climb("iterate", "-n", "1")[-1]
    assert (record["outcome"], record["reason"]) == ("reverted", reason)
    assert re.search(sentence, record["why"]) and "\n" not in record["why"]
    assert (record["metric"]["value"], record["metric"].get("cases")) == (None, None)
    assert [(run["value"], run.get("cases")) for run in record["runs"]] == [(None, None)]


@pytest.mark.parametrize("name", ["twice", "nan", "text", "query"])
def test_a_wrong_answer_refuses_a_baseline(tmp_path: Path, name: str) -> None:
    code, _, sentence = FAULTS[name]
    spoil(code + "\n")
    project = cases_project(tmp_path / "repository")
    ended = project.run("baseline")
    assert ended.exit_code == 1 and re.search(f"goalseek: the baseline has no number: .*{sentence}", ended.stderr)
    assert project.records() == []


def test_a_baseline_without_a_case_is_refused(tmp_path: Path) -> None:
    spoil("rows.clear()\n")
    ended = cases_project(tmp_path / "repository").run("baseline")
    assert ended.exit_code == 1 and "the baseline has no number: accuracy: metrics.json has no case" in ended.stderr


def test_booleans_are_scores_of_0_and_1(made_once: Made, tmp_path: Path) -> None:
    project = climb(made_once, tmp_path, right(*range(14)))
    spoil('for row in rows:\n    row["score"] = row["score"] == 1\n')
    record = project.climb("iterate", "-n", "1")[-1]
    assert (record["metric"]["value"], record["outcome"]) == (0.875, "kept")


NULL = 'for row in rows:\n    row["score"] = None if row["id"] in {ids!r} and {condition} else row["score"]\n'


def without(*ids: str, condition: str = "True") -> None:
    """The judge gives no score to these cases."""
    spoil(NULL.format(ids=ids, condition=condition))


def test_a_case_without_a_score_is_asked_once_more_in_the_same_measurement(made_once: Made, tmp_path: Path) -> None:
    project = climb(made_once, tmp_path, right(*range(14)))
    without("q3", condition='not (home / "again").exists() and not (home / "again").touch()')
    record = project.climb("iterate", "-n", "1")[-1]
    (seed,) = (seed for seed, ids in asked(1) if ids == ["q3"])
    (run,) = (run for run in record["runs"] if run["seed"] == seed)
    assert unpacked(run)[3] == 1 and record["metric"]["value"] == 0.875
    assert record["metric"]["cases"]["cost"] == 2.0, "a case that is asked again is paid for once"
    log = (project.run_folder(1) / "verifier.log").read_text()
    assert "[1 case without a score, asked once more]" in log
    assert len(record["verify"]) == len(record["runs"]) + 1


@pytest.mark.parametrize(
    ("missing", "direction", "value"),
    [(None, "maximize", 14 / 16), ("worst", "maximize", 14 / 16), (-1.0, "maximize", 13 / 16), (2, "maximize", 1)],
)
def test_what_a_candidate_leaves_without_a_score_counts_as_the_manifest_says(
    tmp_path: Path, missing: object, direction: str, value: float
) -> None:
    metric = {"direction": direction} if missing is None else {"direction": direction, "missing": missing}
    project = cases_project(tmp_path / "repository", right(*range(14)), metric=metric)
    project.check("baseline")
    without("q15")
    record = project.climb("iterate", "-n", "1")[-1]
    assert record["metric"]["value"] == value
    counts = record["metric"]["cases"]
    assert counts["lost"] == (missing == -1.0) and counts["won"] == 14 + (missing == 2)
    counted = 0 if missing in (None, "worst") else missing
    assert {unpacked(run)[15] for run in record["runs"] if 15 in unpacked(run)} == {counted}


def test_the_worst_score_of_a_cost_is_the_highest_so_far(tmp_path: Path) -> None:
    spoil('for row in rows:\n    row["score"] = 40 - 10 * row["score"]\n')
    project = cases_project(tmp_path / "repository", right(*range(14)), metric={"direction": "minimize"})
    project.check("baseline")
    spoil((home() / "spoil.py").read_text() + NULL.format(ids=("q15",), condition="True"))
    record = project.climb("iterate", "-n", "1")[-1]
    assert record["metric"]["value"] == (14 * 30 + 2 * 40) / 16


def test_missing_fail_rejects_a_candidate_for_a_single_case(tmp_path: Path) -> None:
    project = cases_project(tmp_path / "repository", right(*range(14)), metric={"missing": "fail"})
    project.check("baseline")
    without("q15")
    record = project.climb("iterate", "-n", "1")[-1]
    assert (record["outcome"], record["reason"]) == ("reverted", "no_metric")
    assert re.fullmatch(r"1 of \d+ cases got no score, asked twice", record["why"])


def test_a_case_that_the_incumbent_lacks_leaves_the_pairs(tmp_path: Path) -> None:
    without("q15")
    project = cases_project(tmp_path / "repository", scored(dict.fromkeys(IDS, 1)))
    project.check("baseline")
    spoil("")
    baseline, kept = project.climb("iterate", "-n", "1")
    assert baseline["metric"]["value"] == 0 and len(baseline["case_ids"]) == 16
    assert (kept["metric"]["cases"]["run"], kept["metric"]["cases"]["won"]) == (15, 15)


def test_a_part_may_lack_more_than_a_tenth_of_itself_if_that_is_no_tenth_of_all_cases(tmp_path: Path) -> None:
    ids = tuple(f"q{number}" for number in range(40))
    project = cases_project(tmp_path / "repository", right(*range(36)), ids=ids)
    project.check("baseline")
    without("q36", "q37", "q38", "q39")
    record = project.climb("iterate", "-n", "1")[-1]
    assert (record["outcome"], record["metric"]["value"], record["metric"]["cases"]["run"]) == ("kept", 0.9, 40)


def test_more_than_a_tenth_missing_rejects_a_candidate(made_once: Made, tmp_path: Path) -> None:
    project = climb(made_once, tmp_path, right(*range(14)))
    without(*IDS[::2])
    record = project.climb("iterate", "-n", "1")[-1]
    assert (record["outcome"], record["reason"]) == ("reverted", "no_metric")
    assert re.fullmatch(r"\d of \d cases got no score, asked twice", record["why"])


def test_more_than_a_tenth_missing_of_the_incumbent_ends_the_run_and_it_goes_on_when_mended(tmp_path: Path) -> None:
    project = cases_project(tmp_path / "repository", right(*range(14)), metric={"noise": "always", "window": 1})
    project.check("baseline")
    without(*IDS, condition="not answers")  # the incumbent has none right
    ended = project.run("iterate", "-n", "1")
    assert ended.exit_code == 1
    message = "the incumbent was measured again and gives no number any more: 16 of 16 cases got no score, asked twice"
    assert message in ended.stderr
    spoil("")
    assert project.climb("iterate", "-n", "1")[-1]["outcome"] == "kept"
