"""The ruler is pinned: changed content is found and named, and a number is of this measurement or it is none."""

import os
import time
import zlib
from pathlib import Path

import pytest
from project import Project, Projects, answer

from goalseek.measurement.metric import RunFolder, StaleFile

RUNS_IT = "sh answer.sh\n"


def runs_candidate(make_project: Projects, judge: str = RUNS_IT) -> Project:
    """A project whose candidate is a script that the hidden judge runs in one tree with itself."""
    files = {"answer.sh": score(1), "hidden/judge.sh": judge, "hidden/labels": "1\n", "other.txt": "fixed\n"}
    scope = {"writable": ["answer.sh"], "hidden": ["hidden/**"], "generated": ["out/**"]}
    return make_project("candidate", files=files, manifest={"scope": scope})


def score(value: object, before: str = "") -> str:
    """A candidate that writes its own metrics, after it did something else."""
    return f'{before}\necho \'{{"score": {value}}}\' > "$GOALSEEK_RUN_DIR/metrics.json"\n'


def moves(project: Project, *texts: str) -> None:
    project.set_moves(*({"files": {"answer.sh": text}} for text in texts))


def test_candidate_code_that_writes_the_ruler_in_its_own_tree_rejects_the_candidate(make_project: Projects) -> None:
    project = runs_candidate(make_project)
    attacks = {
        "hidden/labels": "echo 9 > hidden/labels",
        "hidden/judge.sh": "rm hidden/judge.sh",
        "other.txt": "rm other.txt; ln -s answer.sh other.txt",
        "hidden/labels ": "touch -r hidden/labels x; echo 9 > hidden/labels; echo 1 > hidden/labels; "
        "touch -r x hidden/labels",
        "the tree": 'rm -rf "$GOALSEEK_PROJECT_ROOT"',
    }
    moves(project, *(score(9, attack) for attack in attacks.values()), score(2, "echo x > answer.sh; echo y > new"))
    records = project.climb("iterate", "-n", str(len(attacks) + 1))[1:]
    for name, record in zip(attacks, records, strict=False):
        assert (record["outcome"], record["reason"]) == ("reverted", "verify_failed"), (name, record)
        assert name.strip() in record["why"] and record["metric"]["value"] is None
    assert records[-1]["outcome"] == "kept", "its own files are the candidate's to write"
    assert (project.trees() / "bench" / "tree" / "hidden" / "labels").read_text() in ("1\n", "9\n")


def test_what_one_candidate_did_to_its_tree_is_gone_before_the_next(make_project: Projects) -> None:
    judge = 'cat hidden/labels other.txt > "$GOALSEEK_RUN_DIR/seen"; ls > "$GOALSEEK_RUN_DIR/names"; ' + RUNS_IT
    project = runs_candidate(make_project, judge)
    moves(project, score(9, "echo 9 > hidden/labels; rm other.txt; mkdir -p new/er; touch new/er/x"), score(2))
    records = project.climb("iterate", "-n", "2")
    assert [record["reason"] for record in records] == ["measured", "verify_failed", "better"]
    seen, names = (project.run_folder(2) / "measurements" / "1" / name for name in ("seen", "names"))
    assert seen.read_text() == "1\nfixed\n" and "new" not in names.read_text().split()


def test_an_agent_that_edits_the_bench_between_measurements_changes_no_number(make_project: Projects) -> None:
    judge = 'sleep 0.1; cat lib.sh > "$GOALSEEK_RUN_DIR/lib"; ls > "$GOALSEEK_RUN_DIR/names"; sh answer.sh\n'
    project = runs_candidate(make_project, judge)
    project.write({"lib.sh": "1\n"})
    bench = '"$XDG_CACHE_HOME"/goalseek/*/bench/tree'
    scope = {"writable": ["answer.sh", "lib.sh"], "hidden": ["hidden/**"]}
    project.set_agent(
        f"cd {bench}; echo 2 > lib.sh; echo 2 > planted; cd -; echo '{score(2)}' > /dev/null\n"
        "printf '%s' \"$(cat answer.sh)\n# more $GOALSEEK_ITERATION\" > answer.sh; echo title\n",
        {"scope": scope, "env": {"agent": {"pass": ["XDG_CACHE_HOME"]}}},
    )
    project.commit()
    project.climb("iterate", "-n", "2")
    for number in (1, 2):
        artifacts = project.run_folder(number) / "measurements" / "1"
        assert (artifacts / "lib").read_text() == "1\n" and "planted" not in (artifacts / "names").read_text()


def test_an_object_with_another_content_than_its_name_says_stops_the_run(project: Project) -> None:
    """Git itself does not look when it reads an object."""
    blob = project.git("rev-parse", "HEAD:hidden/judge.sh")
    place = project.top / ".git" / "objects" / blob[:2] / blob[2:]
    forged = b'echo \'{"score": 99}\' > "$GOALSEEK_RUN_DIR/metrics.json"\n'
    place.chmod(0o644)
    place.write_bytes(zlib.compress(b"blob %d\0" % len(forged) + forged))
    project.git("update-index", "--refresh")
    project.set_moves(answer(2))
    ended = project.run("iterate")
    assert ended.exit_code == 3 and "hidden/judge.sh" in ended.stderr, ended
    assert project.records() == []


STALE = {
    "a hard link": 'ln answer.sh "$GOALSEEK_RUN_DIR/metrics.json"; exit 0',
    "replaced": 'mv "$GOALSEEK_RUN_DIR" x; mkdir "$GOALSEEK_RUN_DIR"; cp x/m "$GOALSEEK_RUN_DIR/metrics.json"; exit 0',
    "older": 'cp -p "$HOME/old" "$GOALSEEK_RUN_DIR/metrics.json"; exit 0',
    "wrote no": 'ln -s "$HOME/old" "$GOALSEEK_RUN_DIR/metrics.json"; exit 0',
    "wrote no ": 'mkfifo "$GOALSEEK_RUN_DIR/metrics.json"; exit 0',
}


def test_a_metric_that_this_measurement_did_not_make_is_none(make_project: Projects) -> None:
    project = runs_candidate(make_project)
    old = Path(os.environ["HOME"]) / "old"
    old.write_text('{"score": 99}\n')
    os.utime(old, (1, 1))
    moves(project, *(score(9, f'echo \'{{"score": 99}}\' > "$GOALSEEK_RUN_DIR/m"; {how}') for how in STALE.values()))
    records = project.climb("iterate", "-n", str(len(STALE)))[1:]
    for name, record in zip(STALE, records, strict=True):
        assert record["reason"] == "no_metric" and name.strip() in record["why"], (name, record)


MAKES_NONE_FOR_9 = "mkdir -p out; grep -q 9 answer.json || cp answer.json out/metrics.json; cp answer.json out/other"


@pytest.mark.parametrize(
    ("keep", "committed", "why"),
    [
        ([], {"out/metrics.json": answer(50)}, "unchanged since the commit"),
        (["out/"], {}, "older than this measurement"),
    ],
    ids=["committed", "kept"],
)
def test_an_output_of_an_earlier_measurement_is_not_this_ones_metric(
    make_project: Projects, keep: list[str], committed: dict[str, str], why: str
) -> None:
    project = make_project(
        files={"answer.json": answer(1), **committed},
        manifest={
            "scope": {"writable": ["answer.json", *(["out/**"] if committed else [])]},
            "verify": [{"name": "make", "run": MAKES_NONE_FOR_9, "outputs": ["out/**"], "keep": keep}],
            "metric": {"direction": "maximize", "query": "score", "path": "out/metrics.json"},
        },
    )
    own = {"files": {"answer.json": answer(9, 11), **{path: answer(99) for path in committed}}}
    project.set_moves(answer(2), answer(9), own)
    records = project.climb("iterate", "-n", "3")
    assert [record["metric"]["value"] for record in records] == [1, 2, None, None]
    assert all(why in record["why"] for record in records[2:])


def test_an_output_never_takes_the_place_of_the_rulers_files(make_project: Projects) -> None:
    make = {2: "mkdir -p hidden; echo 9 > hidden/labels.json", 3: "echo 9 > fixed.json", 4: "echo 9 > data.json"}
    cases = "; ".join(f"if grep -q 'score.: {number}' answer.json; then {step}; fi" for number, step in make.items())
    command = f"rm -rf data.json; {cases}; cp answer.json out.json"
    project = make_project(
        "places",
        files={
            "answer.json": answer(1),
            "hidden/judge.sh": 'grep 9 hidden/labels.json fixed.json || cp out.json "$GOALSEEK_RUN_DIR/metrics.json"\n',
            "hidden/labels.json": "1\n",
            "fixed.json": "1\n",
            "data.json/x": "1\n",
        },
        manifest={
            "verify": [
                {"name": "make", "run": command, "sees": "candidate", "outputs": ["*.json"]},
                {"name": "judge", "run": "sh hidden/judge.sh", "sees": "hidden"},
            ]
        },
    )
    project.set_moves(answer(2), answer(3), answer(4), answer(5))
    records = project.climb("iterate", "-n", "4")[1:]
    assert [record["reason"] for record in records] == ["verify_failed"] * 3 + ["better"], records
    for name, record in zip(("hidden/labels.json", "fixed.json", "data.json"), records, strict=False):
        assert name in record["why"]


@pytest.mark.slow
def test_a_shared_folder_that_changes_is_noted_in_the_record_and_by_status(project: Project) -> None:
    project.write({".gitignore": "data/\n", "data/big.txt": "data\n", "data/__pycache__/x.pyc": "x"})
    project.set_agent(
        f"[ $GOALSEEK_ITERATION != 2 ] || echo other data > {project.folder}/data/big.txt\n"
        "printf '{\"score\": %s}' $((GOALSEEK_ITERATION + 1)) > answer.json; echo a title\n",
        {"scope": {"writable": ["answer.json"], "hidden": ["hidden/**"], "share": ["data"]}},
    )
    project.commit()
    first, second = project.climb("iterate", "-n", "1")
    assert first["digests"]["share"] == second["digests"]["share"] and not second["notes"]
    project.write({"data/__pycache__/x.pyc": "another"})
    assert "shared files" not in project.run("status").stdout
    third = project.climb("iterate", "-n", "1")[-1]
    assert "shared files are not as at the baseline: data/big.txt" in project.run("status").stdout
    assert third["outcome"] == "kept" and third["digests"]["share"] != first["digests"]["share"]
    assert any("data/big.txt" in note for note in third["notes"])
    assert "kept while shared files are not as at the baseline: iteration 2; --measure" in project.check("promote")
    report = project.check("report", "-o", "-", "--format", "md")
    assert "- measured with other shared files than the baseline: 1" in report
    project.write({"data/big.txt": "data\n"})
    assert "shared files" not in project.run("status").stdout, "their contents are those of the baseline again"
    project.write({"data/big.txt": "atad\n"})
    assert "shared files" in project.run("status").stdout, "of the same size"
    project.check("baseline")
    assert "shared files" not in project.run("status").stdout
    assert project.climb("iterate", "-n", "1")[-1]["notes"] == []


def test_a_clock_that_is_set_back_makes_no_file_of_this_measurement_an_old_one(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, hour, read = RunFolder.make(own / "run"), 3600 * 10**9, time.time_ns
    path = own / "run" / "m.json"
    path.write_text("1")
    monkeypatch.setattr(time, "time_ns", lambda: read() - hour)
    os.utime(path, ns=(0, folder.made.st_mtime_ns - hour + 10**9))
    folder.open("m.json").close()
    os.utime(path, ns=(0, folder.made.st_mtime_ns - hour - 10**9))
    with pytest.raises(StaleFile, match="older"):
        folder.open("m.json")
