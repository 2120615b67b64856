"""The ruler is pinned at the baseline: what the user does on main later neither changes nor stops a run."""

from pathlib import Path
from typing import Any

import pytest
from project import FILES, JUDGE, Project, Projects, answer, held_out, home

from goalseek.cli import main
from goalseek.evaluation import measurements
from goalseek.manifest import loading
from goalseek.manifest.tables import Manifest
from goalseek.measurement.ruler import Ruler, differing_keys, refuse_removed_keys, ruler_keys, with_pinned_ruler
from goalseek.project import config

JUDGE_BY_SIZE = (
    'sed s/size/old/ answer.json | sed s/score/size/ | sed s/old/score/ > "$GOALSEEK_RUN_DIR/metrics.json"\n'
)


@pytest.mark.slow
def test_later_commits_on_main_change_nothing_and_a_baseline_adopts_them(project: Project) -> None:
    project.set_moves(*(answer(score, size=20) for score in (2, 3, 4, 5)))
    project.climb()
    project.write({"hidden/judge.sh": JUDGE_BY_SIZE, "other.txt": "changed\n", "answer.json": answer(50)})
    project.commit()
    records = project.climb()
    assert records[-1]["metric"]["value"] == 3, "measured by the pinned judge, from the incumbent"
    assert project.git("show", "goalseek/demo:other.txt") == FILES["other.txt"].strip()
    project.check("baseline")
    assert project.run("status").stdout.startswith("demo: finished"), "nobody interrupted it"
    fresh = project.iterations()[-1]
    assert (fresh["iteration"], fresh["outcome"], fresh["reason"]) == (3, "baseline", "measured")
    assert fresh["epoch"] == records[-1]["epoch"] + 1
    assert fresh["metric"]["value"] == 20, "the new judge, under the incumbent's code"
    assert project.git("show", "goalseek/demo:other.txt") == "changed"
    assert project.git("show", "goalseek/demo:answer.json") + "\n" == answer(3, size=20)
    record = project.climb()[-1]
    assert (record["iteration"], record["metric"]["incumbent"]) == (4, 20), "numbers of two rulers are never compared"
    assert [record["epoch"] for record in project.iterations()] == [0, 0, 0, 1, 1]
    assert project.git("merge-base", "--is-ancestor", "main", "goalseek/demo") == ""
    assert project.git("merge-base", "--is-ancestor", records[-1]["commit_hash"], "goalseek/demo") == ""


@pytest.mark.slow
def test_keys_of_the_ruler_are_pinned_and_what_differs_is_told(played: Projects) -> None:
    project = played(answer(2), more=(answer(3), answer(4, size=5)))
    project.set_manifest({"metric": {"direction": "minimize", "query": "size"}})
    ended = project.run("iterate")
    assert ended.exit_code == 0 and "metric differs from the pinned verifier" in ended.stderr
    record = project.iterations()[-1]
    assert (record["metric"]["direction"], record["metric"]["value"], record["outcome"]) == ("maximize", 3, "kept")
    assert "goalseek baseline adopts it" in ended.stderr
    other_direction = "kept changes have the other metric.direction: goalseek baseline --from HEAD"
    assert other_direction in ended.stderr and other_direction in project.run("status").stdout
    assert other_direction in project.run("baseline").stderr
    assert project.iterations()[-1]["metric"]["name"] == "size"
    assert other_direction not in project.run("status").stdout
    assert project.climb()[-1]["outcome"] == "kept"
    project.set_manifest({"metric": {"direction": "maximize", "query": "size"}})
    assert other_direction in project.run("status").stdout
    assert other_direction not in project.run("baseline", "--from", "HEAD").stderr, "it is your own code"


def test_a_ruler_that_was_pinned_with_other_spellings_of_a_path_differs_in_nothing(project: Project) -> None:
    command = {"name": "judge", "run": "x", "cwd": "a", "outputs": ["o/x"], "keep": ["/c/"]}
    project.set_manifest({"verify": [command], "setup": {"run": "x", "gives": ["build"]}})
    manifest = loading.load(project.manifest).manifest
    keys = ruler_keys(manifest)
    keys["verify"][0].update({"cwd": "./a/", "outputs": ["o//x"], "keep": ["./c/"]})
    keys["setup"]["gives"] = ["./build//"]
    keys["metric"]["path"] = "./metrics.json"
    assert differing_keys(manifest, Ruler(keys, "")) == []
    assert with_pinned_ruler(manifest, Ruler(keys, "")) == manifest
    keys["setup"]["gives"] = ["../build"]
    assert differing_keys(manifest, Ruler(keys, "")) == ["setup"]


def with_repeats(manifest: Manifest, repeats: int) -> dict[str, Any]:
    """A ruler's keys as they were when it had ``metric.repeats``."""
    keys = ruler_keys(manifest)
    return {**keys, "metric": {**keys["metric"], "repeats": repeats, "aggregate": "median"}}


@pytest.mark.slow
def test_a_climb_whose_ruler_has_removed_keys_is_read_and_goes_on_after_one_baseline(project: Project) -> None:
    project.set_moves(answer(2), answer(3), answer(4))
    with pytest.MonkeyPatch.context() as earlier_version:
        earlier_version.setattr(measurements, "ruler_keys", lambda manifest: with_repeats(manifest, 3))
        earlier_version.setattr(config, "refuse_removed_keys", lambda ruler: None)
        for command in ("iterate", "step", "step", "step", "step"):  # up to COMMIT
            assert main.run(["-C", str(project.folder), command]) == 0
    before = project.results.read_bytes()
    for command in (("iterate",), ("noise",), ("settle",)):
        refused = project.run(*command)
        assert "the pinned verifier has metric.aggregate and metric.repeats, which were removed" in refused.stderr
        assert refused.exit_code == 2 and "goalseek baseline pins the verifier that the manifest has" in refused.stderr
    assert "metric; goalseek baseline adopts it" in project.check("status")
    project.check("audit")
    project.results.unlink()
    project.check("audit", "--rebuild")
    assert project.results.read_bytes() == before
    *_, left_behind, baseline = project.climb("baseline")
    assert (left_behind["reason"], baseline["epoch"], baseline["metric"]["value"]) == ("interrupted", 1, 2)
    assert project.climb()[-1]["outcome"] == "kept"
    project.check("audit")


def test_a_ruler_with_one_repeat_is_the_same_as_without_the_key(project: Project) -> None:
    manifest = loading.load(project.manifest).manifest
    pinned = Ruler(with_repeats(manifest, 1), "")
    assert differing_keys(manifest, pinned) == [] and with_pinned_ruler(manifest, pinned) == manifest
    refuse_removed_keys(pinned)


def test_a_holdout_that_an_earlier_version_pinned_holds_no_more_and_a_baseline_adopts_the_manifests(
    project: Project,
) -> None:
    project.set_manifest(held_out("true"))
    manifest = loading.load(project.manifest).manifest
    pinned = {**ruler_keys(manifest), "holdout": {"run": "true", "query": "score", "when": "end", "timeout": None}}
    pinned["verify"] = pinned["verify"][:1]
    assert with_pinned_ruler(manifest, Ruler(pinned, "")).holdout is None
    assert differing_keys(manifest, Ruler(pinned, "")) == ["verify", "holdout"]


def test_what_lies_beside_the_manifest_is_named_first(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "top", FILES | {"other.txt": "1\n"}, below="part")
    (project.top / "README.md").write_text("1\n")
    project.commit("a page")
    project.write({"other.txt": "2\n"})
    (project.top / "README.md").write_text("2\n")
    assert "part of the verifier: part/other.txt, README.md" in project.run("baseline").stderr
    (project.top / "README.md").write_text("1\n")
    project.write({"other.txt": "1\n"})
    project.set_moves(answer(2))
    project.check("baseline")
    project.write({"other.txt": "2\n"})
    for name in "abcdef":
        (project.top / f"{name}.md").write_text("1\n")
    project.set_manifest({"metric": {"direction": "maximize", "query": "size"}})
    project.commit("others' work")
    files = "part/other.txt, a.md, b.md, c.md, d.md and 2 more"
    line = f"key metric, files {files} differ from the pinned verifier; goalseek baseline adopts them\n"
    stderr = project.run("iterate").stderr
    assert line in stderr and stderr.count("pinned verifier") == 1
    assert "file d.md; goalseek baseline adopts it" in (shown := project.run("status").stdout)
    assert "and 2 more files;" in shown and "e.md" not in shown


def proposing(score: object, more: str = "") -> str:
    """A proposer's script: it sets the score, and does something more."""
    return f'printf \'{{"score": {score},\\n"size": 10\\n}}\\n\' > answer.json; echo proposed {score}\n{more}\n'


def propose(project: Project, score: object, more: str = "") -> dict[str, Any]:
    """Commits another script, and climbs with it."""
    project.write({"propose.sh": proposing(score, more)})
    project.commit("propose")
    return project.climb()[-1]


@pytest.mark.slow
@pytest.mark.parametrize("before", [{}, {"propose.sh": "exit 1\n"}])
def test_a_proposers_script_is_that_of_head_and_no_part_of_the_ruler(project: Project, before: dict[str, str]) -> None:
    """The baseline was pinned without it, or while it was a file as any other."""
    project.write({"tell.sh": "true\n", "data.txt": "1\n", **before})
    project.commit("files")
    project.check("baseline")
    provider = {"name": "command", "command": ["timeout", "60", "sh", "./propose.sh", "data.txt"]}
    project.set_manifest({"provider": provider, "notify": {"command": ["./tell.sh"]}})
    first = propose(project, 2)
    assert (first["outcome"], first["hypothesis_summary"]) == ("kept", "proposed 2")
    project.write({"tell.sh": "echo\n"})
    second = propose(project, 3, "echo '#' >> propose.sh")
    assert (second["reason"], second["digests"]["ruler"]) == ("out_of_scope", first["digests"]["ruler"])
    assert first["digests"]["proposer"] != second["digests"]["proposer"]
    status = project.run("status").stdout
    assert "differs" not in status, "the one proposes, the other is told, and neither measures"
    pinned = project.git("ls-tree", "-r", "--name-only", "goalseek/demo").split()
    assert ("propose.sh" in pinned) == bool(before), "the climb's tree stays as it was"
    project.write({"data.txt": "2\n"})
    third = propose(project, 4)
    assert (third["outcome"], third["epoch"]) == ("kept", 0)
    assert "file data.txt; goalseek baseline adopts it" in project.run("status").stdout, "it is named, and not run"


def test_a_proposers_script_is_no_candidates_unless_the_scope_spells_it_out(project: Project) -> None:
    command = {"name": "command", "command": ["sh", "propose.sh"]}
    for writable, reason in ((["**"], "out_of_scope"), (["answer.json", "propose.sh"], "better")):
        scope = {"writable": writable, "hidden": ["hidden/**"]}
        project.set_manifest({"provider": command, "scope": scope})
        assert propose(project, 2, "echo '#' >> propose.sh")["reason"] == reason


@pytest.mark.slow
def test_the_headline_spans_the_baselines_of_one_verifier_and_names_the_first_of_another(project: Project) -> None:
    project.set_moves(answer(2), answer(1), answer(4), answer(6))
    project.climb("iterate", "-n", "2")
    assert project.climb("baseline")[-1]["epoch"] == 1
    project.climb()
    project.check("baseline")
    last_line = project.run("iterate", "--until", "score>=4").stdout
    assert "score 1 → 4 · " in last_line and "2 kept of 3" in last_line
    assert "baseline 1, +3" in project.run("status").stdout and "first " not in project.run("status").stdout
    assert "`score` 1 → 4\n\n**300% better.**" in (told := project.check("report", "-o", "-", "--format", "md"))
    assert "2 kept of 3 tries" in told
    settled = project.climb("settle") and project.records()[-1]
    assert (settled["baseline"], settled["best"], settled["pairs"][0]) == (1, 4, [1, 4])
    project.set_manifest({"metric": {"direction": "maximize", "query": "size", "noise": "none"}})
    project.check("baseline")
    other = "before the verifier or the code changed"
    assert f"first      1, the baseline of iteration 0, {other}" in project.run("status").stdout
    project.set_moves(*[answer(6, size=20)] * 8)
    project.climb()
    assert "settling: baseline of iteration 6, this verifier's first, and best" in project.run("settle").stderr
    assert f"; first baseline 1 (iteration 0, {other})" in project.check("report", "-o", "-", "--format", "md")


@pytest.mark.slow
def test_what_was_kept_is_not_counted_any_more_after_a_baseline_from_other_code(project: Project) -> None:
    project.set_moves(answer(2), answer(3), answer(0.5), answer(4))
    project.climb("iterate", "-n", "2")
    project.write({"answer.json": answer(1, size=20)})
    project.commit("other code")
    assert "source" in project.climb("baseline", "--from", "HEAD")[-1]["digests"]
    told = project.run("status").stdout
    assert "HEAD lacks of the kept changes" not in told and "first      1, the baseline of iteration 0" in told
    assert "0 kept of 1" in project.run("iterate").stdout
    assert project.climb()[-1]["outcome"] == "kept"
    assert "1 kept of 2 tries" in project.check("report", "-o", "-", "--format", "md")


def test_uncommitted_work_is_named_and_what_is_committed_can_be_measured_all_the_same(project: Project) -> None:
    project.set_moves(answer(2))
    dirty = {"answer.json": answer(7), "hidden/judge.sh": "exit 1\n", "hidden/new": "1\n", "other.txt": "dirty\n"}
    project.write(dirty)
    refused = project.run("iterate")
    assert refused.exit_code == 2 and project.traces() == []
    assert "hidden, but not committed: hidden/new\nwritable, and not committed either: answer.json" in refused.stderr
    assert "goalseek iterate --committed" in refused.stderr
    (project.folder / "hidden/new").unlink()
    said = "outside scope.writable, perhaps part of the verifier: hidden/judge.sh, other.txt"
    assert said in project.run("iterate").stderr
    project.write(dirty)
    assert "✗ committed" in project.run("doctor", "--quick").stdout
    assert "! committed" in project.run("doctor", "--quick", "--committed").stdout
    ended = project.run("iterate", "--committed")
    said = "hidden/new, hidden/judge.sh, other.txt, answer.json have uncommitted changes: the baseline is that of HEAD"
    assert ended.exit_code == 0 and said in ended.stderr
    assert [record["metric"]["value"] for record in project.iterations()] == [1, 2]
    assert {path: (project.folder / path).read_text() for path in dirty} == dirty
    assert project.run("baseline").exit_code == 2
    assert project.run("baseline", "--committed").exit_code == 0
    assert project.run("baseline", "--committed", "--from", "HEAD").exit_code == 0
    assert [record["metric"]["value"] for record in project.iterations()] == [1, 2, 2, 1]


def test_a_baseline_that_fails_leaves_the_old_one_standing(played: Projects) -> None:
    project = played(answer(2), more=(answer(3), answer(4)))
    project.write({"hidden/judge.sh": "echo all is lost; exit 4\n"})
    project.commit()
    ended = project.run("baseline")
    assert ended.exit_code == 1 and "| all is lost" in ended.stderr
    assert project.climb()[-1]["metric"]["value"] == 3
    assert [record["epoch"] for record in project.iterations()] == [0, 0, 0]


def test_a_tree_measured_under_the_old_ruler_is_measured_again_under_the_new(project: Project) -> None:
    project.set_moves(answer(0.5), answer(0.5), answer(0.5))
    assert [record["reason"] for record in project.climb("iterate", "-n", "2")[1:]] == ["worse", "duplicate"]
    project.write({"hidden/more": "1\n"})
    project.commit()
    project.check("baseline")
    assert project.climb()[-1]["reason"] == "worse"


def test_a_baseline_that_failed_is_measured_anew_the_next_time(project: Project) -> None:
    project.write({"hidden/judge.sh": 'test -e "$HOME/tool" || exit 9\n' + JUDGE})
    project.commit()
    home("tool").touch()
    project.set_moves(answer(2))
    project.climb()
    home("tool").unlink()
    project.set_manifest({"metric": {"direction": "maximize", "query": "size"}})
    assert project.run("baseline").exit_code == 1
    home("tool").touch()
    metric = project.climb("baseline")[-1]["metric"]
    assert (metric["name"], metric["value"]) == ("size", 10)


def test_a_stored_number_of_another_ruler_is_not_taken_for_this_one(project: Project) -> None:
    project.set_moves(answer(2))
    for _ in range(3):
        project.check("step")
    assert (project.run_folder(0) / "evidence.json").exists() and not project.records()
    project.set_manifest({"metric": {"direction": "maximize", "query": "size"}})
    assert project.climb()[0]["metric"]["value"] == 10
