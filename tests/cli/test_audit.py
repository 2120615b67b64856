"""``goalseek audit``: a clean climb is clean, every kind of tampering is named, and git alone gives the records back."""

import fcntl
import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import taking_back
from project import Project, Projects, answer
from records import ledger_message
from taking_back import part

import goalseek
from goalseek.cli.registry import COMMANDS
from goalseek.ledger.checkpoints import Seal
from goalseek.ledger.results_file import History, load_standing

LEDGER = "refs/goalseek/demo/ledger"
TIP = "refs/goalseek/demo/tip"


def climb(top: Path) -> Project:
    """A project after two runs: kept, reverted, out of scope, another baseline, kept."""
    project = Project.make(top)
    project.set_moves(answer(2), answer(0.5), {"files": {"other.txt": "x\n"}}, answer(1.1), answer(3), answer(4))
    project.climb("iterate", "-n", "3")
    project.write({"hidden/more.txt": "more\n"})
    project.commit("another ruler")
    project.check("baseline")
    project.climb("iterate", "--new")
    return project


@pytest.fixture
def climbed(made_once: Projects, tmp_path: Path) -> Project:
    return made_once(climb, tmp_path / "repository")


def lines(project: Project) -> list[str]:
    return project.results.read_text().splitlines()


def write_lines(project: Project, *found: str) -> None:
    project.results.write_text("".join(line + "\n" for line in found))


def audited(project: Project, *arguments: str) -> list[dict[str, str]]:
    """The differences that an audit names, whose exit code must fit them."""
    ended = project.run("audit", "--json", *arguments)
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    assert ended.exit_code == (1 if found else 0), ended
    return found


def named(project: Project, *arguments: str) -> list[tuple[str, str]]:
    return [(row["where"], row["what"]) for row in audited(project, *arguments)]


def add_to_ledger(project: Project, message: str, *parents: str, tree: str = f"{LEDGER}^{{tree}}") -> str:
    """Forges a ledger commit on top."""
    more = [word for parent in (LEDGER, *parents) for word in ("-p", parent)]
    made = project.git("commit-tree", tree, *more, stdin=message.encode())
    project.git("update-ref", LEDGER, made)
    return made


def secret(project: Project) -> Path:
    return project.top / ".git" / "goalseek" / "demo" / "secret"


def test_a_clean_climb_is_clean_and_nothing_is_changed(climbed: Project) -> None:
    def everything() -> tuple[object, ...]:
        files = (climbed.results.read_bytes(), secret(climbed).read_bytes())
        return climbed.users(), climbed.git("for-each-ref"), *files

    before = everything()
    assert climbed.check("audit") == "8 records, 0 differences; seals checked\n"
    assert everything() == before


def test_odd_names_and_the_longer_hash_are_clean(make_project: Projects) -> None:
    files = {
        "src/é\n.txt": "1\n",
        "answer.json": answer(1),
        "hidden/judge.sh": 'cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"\n',
    }
    scope = {"writable": ["answer.json", "src/**"], "hidden": ["hidden/**"]}
    project = make_project(files=files, manifest={"scope": scope}, object_format="sha256")
    project.set_moves({"files": {"src/é\n.txt": "2\n", 'src/"b"': "3\n", "answer.json": answer(2)}})
    project.climb()
    assert audited(project) == []


@pytest.mark.slow
def test_an_iteration_under_way_is_no_difference(played: Projects) -> None:
    project = played(answer(2), more=(answer(3),))
    for _ in range(7):
        project.check("step")
        assert audited(project) == []
        is_ahead = project.git("rev-parse", TIP) != project.git("rev-parse", "goalseek/demo")
        assert ("under way" in project.run("audit").stdout) == is_ahead


def test_each_damage_to_the_file_is_named_by_its_line_and_a_changed_value_by_its_key(climbed: Project) -> None:
    raw, (first, second, third, *rest) = climbed.results.read_bytes(), lines(climbed)
    write_lines(climbed, first, second, third.replace('"value":2.0,', '"value":9.0,'), *rest)
    differences = audited(climbed)
    expected = {"what": "a line was changed", "expected": "2.0", "found": "9.0"}
    assert {"where": "results.jsonl line 3, metric.value", **expected} in differences
    assert {row["where"].split(",")[0] for row in differences} == {"results.jsonl line 3"}
    for changed, line, what in (
        ([first, second[:-5], third, *rest], 2, "a line was changed"),
        ([json.dumps(json.loads(first)), second, third, *rest], 1, "a line was changed"),
        ([first, second, third, *rest[1:]], 4, "a record in git is not in results.jsonl"),
        ([first, second, third, *rest, rest[-1].replace('"seq":7', '"seq":8')], 9, "a line that git does not have"),
    ):
        write_lines(climbed, *changed)
        assert named(climbed) == [(f"results.jsonl line {line}", what)]
    write_lines(climbed, second, first, third, *rest)
    whats = ["a line is in the wrong place", "a record in git is not in results.jsonl"]
    assert sorted(what for _, what in named(climbed)) == whats
    assert {where for where, _ in named(climbed)} == {"results.jsonl line 1", "results.jsonl line 2"}
    for torn, line in ((raw + b'{"schema":', 9), (raw[:-40], 8), (raw[:-1], 8)):
        climbed.results.write_bytes(torn)
        assert named(climbed) == [(f"results.jsonl line {line}", "a torn last line")]
    climbed.results.unlink()
    assert named(climbed) == [("results.jsonl", "the file is missing")]


def test_a_moved_or_deleted_ref_is_named_unless_its_branch_is_checked_out(climbed: Project) -> None:
    for ref in (TIP, "refs/heads/goalseek/demo"):
        before, main = climbed.git("rev-parse", ref), climbed.git("rev-parse", "main")
        climbed.git("update-ref", ref, "main")
        expected = {"where": ref, "what": "a ref is at another commit", "expected": before, "found": main}
        assert audited(climbed) == [expected]
        climbed.git("update-ref", "-d", ref)
        assert audited(climbed) == [{**expected, "found": "nothing"}]
        climbed.git("update-ref", ref, before)
    climbed.git("switch", "--quiet", "goalseek/demo")
    climbed.git("commit", "--quiet", "--allow-empty", "-m", "mine")
    assert audited(climbed) == []


def test_a_ledger_set_back_or_deleted_is_named(climbed: Project) -> None:
    climbed.git("update-ref", LEDGER, f"{LEDGER}~1")
    found = named(climbed)
    assert ("results.jsonl line 8", "a line that git does not have") in found
    assert (TIP, "a ref is at another commit") in found
    climbed.git("update-ref", "-d", LEDGER)
    assert (LEDGER, "a ref is missing") in named(climbed)


def test_a_forged_record_or_a_true_one_at_another_place_has_no_seal_that_holds(climbed: Project) -> None:
    true, head = lines(climbed), climbed.git("rev-parse", LEDGER)
    for seal in ("0" * 64, "é"):
        forged = json.dumps({**json.loads(true[0]), "seq": 8, "seal": seal}, separators=(",", ":"))
        add_to_ledger(climbed, ledger_message(forged))
        write_lines(climbed, *true, forged)
        assert named(climbed) == [("record 8", "the seal does not hold")]
        climbed.git("update-ref", LEDGER, head)
    write_lines(climbed, *true)
    add_to_ledger(climbed, ledger_message(true[0]))
    found = named(climbed)
    assert ("record 0", "the seal does not hold") in found
    assert (f"ledger commit {climbed.git('rev-parse', LEDGER)}", "the number is out of sequence") in found


def test_a_ledger_commit_that_is_no_record_is_named(climbed: Project) -> None:
    before, head = climbed.results.read_bytes(), climbed.git("rev-parse", LEDGER)
    last = json.loads(lines(climbed)[-1])
    line = json.dumps({**last, "seq": last["seq"] + 1}, separators=(",", ":"))
    others = ("a commit\n", "[1]", '{"kind":"run","schema":1}', '{"schema":9,"kind":"run"}', "[" * 90000)
    in_other_bytes = ledger_message(line).replace('"seq":', '"seq": ')
    with_other_subjects = (line, ledger_message(line).replace("worse", "tie", 1), ledger_message(line)[:-1])
    for message in (*others, in_other_bytes, *with_other_subjects):
        made = add_to_ledger(climbed, message)
        assert (f"ledger commit {made}", "the message is no record") in named(climbed)
        assert climbed.run("audit", "--rebuild").exit_code == 1
        assert climbed.results.read_bytes() == before
        climbed.git("update-ref", LEDGER, head)


def reforged(project: Project, change: Callable[[dict[str, object]], dict[str, object]]) -> None:
    """Replaces the last record in git and in the file; its seal is left."""
    old = project.git("rev-parse", LEDGER)
    row = change(json.loads(lines(project)[-1]))
    text = json.dumps(row, separators=(",", ":"))
    parents = [word for parent in project.git("log", "-1", "--format=%P", old).split() for word in ("-p", parent)]
    made = project.git("commit-tree", f"{old}^{{tree}}", *parents, stdin=ledger_message(text).encode())
    project.git("update-ref", LEDGER, made)
    write_lines(project, *lines(project)[:-1], text)
    secret(project).unlink(missing_ok=True)
    shutil.rmtree(project.run_folder(int(row["iteration"])), ignore_errors=True)  # type: ignore[call-overload]


CONTRADICTIONS: list[tuple[dict[str, object], str, str]] = [
    ({"commit_hash": "1" * 40}, "record 7, commit_hash", "a commit is missing"),
    ({"commit_hash": "HEAD\nHEAD"}, "record 7, commit_hash", "a commit is missing"),
    ({"tree_hash": "1" * 40}, "candidate", "another tree than recorded"),
    ({"parent_commit_hash": "1" * 40}, "record 7, parent_commit_hash", "a commit is missing"),
    ({"parent_commit_hash": "1" * 40}, "candidate", "another parent than recorded"),
    ({"parent_commit_hash": "1" * 40}, "record 7, parent_commit_hash", "the candidate's parent is not the tip"),
    ({"base_commit_hash": "1" * 40}, "record 7, base_commit_hash", "the candidate's parent is not the incumbent"),
    ({"base_commit_hash": None}, "record 7, base_commit_hash", "the candidate's parent is not the incumbent"),
    ({"rollback_commit_hash": "1" * 40}, "record 7, rollback_commit_hash", "a commit is missing"),
    ({"changed_files": ["other.txt"]}, "record 7, changed_files", "other paths than git's"),
    ({"digests": {"ruler": "1" * 64}}, "record 7", "another verifier than recorded"),
    ({"run_id": "another"}, "candidate", "another trailer Goalseek-Run"),
    ({"iteration": 9}, "candidate", "another trailer Goalseek-Iteration"),
    ({"iteration": 9}, "ledger commit", "the iteration is out of sequence"),
    ({"project": "another"}, "ledger commit", "another project"),
    ({"commit_hash": None}, "ledger commit", "another second parent"),
]


def test_a_record_that_git_contradicts_is_named_without_any_seal(climbed: Project) -> None:
    before, head = climbed.results.read_text(), climbed.git("rev-parse", LEDGER)
    climbed.run_folder(9).mkdir()
    for change, where, what in CONTRADICTIONS:
        reforged(climbed, lambda row, change=change: {**row, **change})  # type: ignore[misc]
        assert [row for row in audited(climbed) if row["where"].startswith(where) and row["what"] == what], change
        climbed.git("update-ref", LEDGER, head)
        climbed.results.write_text(before)


@pytest.mark.slow
def test_a_rollback_that_is_none_is_named(played: Projects) -> None:
    project = played(answer(2), answer(0.5))
    last = project.iterations()[-1]
    before, head = project.results.read_text(), project.git("rev-parse", LEDGER)
    rollback, candidate = last["rollback_commit_hash"], last["commit_hash"]
    message, tree = project.git("log", "-1", "--format=%B", rollback), f"{rollback}^{{tree}}"
    for root, parent, words, what in (
        ("main^{tree}", candidate, message, "another tree than before the candidate"),
        (tree, "main", message, "another parent than the candidate"),
        (tree, candidate, "Reverted\n", "another message than git revert's"),
    ):
        made = project.git("commit-tree", root, "-p", parent, stdin=words.encode())
        reforged(project, lambda row, made=made: {**row, "rollback_commit_hash": made})  # type: ignore[misc]
        for ref in (TIP, "refs/heads/goalseek/demo"):
            project.git("update-ref", ref, made)
        assert (f"rollback {made}", what) in named(project)
        project.git("update-ref", LEDGER, head)
        project.results.write_text(before)


def test_a_revert_of_another_iteration_than_recorded_is_named(tmp_path: Path) -> None:
    project = taking_back.climb(tmp_path / "repository", part("a", 2), part("b", 3))
    project.check("revert", "2")
    assert named(project) == []
    before, head = project.results.read_text(), project.git("rev-parse", LEDGER)
    for number in (1, 99):
        reforged(project, lambda row, number=number: {**row, "taken_back": number})  # type: ignore[misc]
        candidate = project.git("rev-parse", TIP)
        assert (f"candidate {candidate}", "another message than git revert's") in named(project)
        project.git("update-ref", LEDGER, head)
        project.results.write_text(before)


def test_an_edited_result_is_named(climbed: Project) -> None:
    path = climbed.run_folder(1) / "result.json"
    path.write_text(path.read_text().replace('"value": 2.0,', '"value": 9.0,', 1))
    assert ("0001/result.json, metric.value", "not the record") in named(climbed)
    path.write_text("{")
    assert named(climbed) == [("0001/result.json", "not the record")]


def test_a_chain_with_a_hole_or_a_damaged_commit_is_named(climbed: Project) -> None:
    name, other = (climbed.git("rev-parse", f"{LEDGER}~{place}") for place in (3, 1))
    path, another = (climbed.top / ".git" / "objects" / each[:2] / each[2:] for each in (name, other))
    whole, before = path.read_bytes(), climbed.results.read_bytes()
    shutil.rmtree(climbed.top / ".git/goalseek/demo/recent")
    for damaged in (whole[:40], whole[:-20], another.read_bytes(), None):
        path.unlink()
        if damaged is not None:
            path.write_bytes(damaged)
        assert named(climbed) == [(f"ledger commit {name}", "the chain is broken")]
        assert climbed.run("audit", "--rebuild").exit_code == 1
        assert climbed.results.read_bytes() == before
        assert "goalseek audit" in climbed.fail(3, "promote")
        path.unlink(missing_ok=True)
        path.write_bytes(whole)


def test_a_checkpoint_torn_by_a_kill_is_none_and_an_edited_one_is_named(climbed: Project) -> None:
    path = climbed.run_folder(2) / "change.json"
    whole = path.read_bytes()
    try:
        for size in (0, 1, len(whole) - 1):
            path.write_bytes(whole[:size])
            assert audited(climbed) == []
        path.write_bytes(whole.replace(b'"seconds":', b'"seconds":1'))
        assert named(climbed) == [("0002/change.json", "the seal does not hold")]
    finally:
        path.write_bytes(whole)


def test_a_chain_on_another_root_is_named(climbed: Project) -> None:
    old = climbed.git("rev-list", "--reverse", "--first-parent", LEDGER).splitlines()
    made = climbed.git("commit-tree", f"{old[0]}^{{tree}}", stdin=b"another root\n")
    root = made
    for name in old[1:]:
        second = climbed.git("log", "-1", "--format=%P", name).split()[1:]
        more = [word for parent in (made, *second) for word in ("-p", parent)]
        message = climbed.git("log", "-1", "--format=%B", name)
        made = climbed.git("commit-tree", f"{name}^{{tree}}", *more, stdin=message.encode())
    climbed.git("update-ref", LEDGER, made)
    unsealed = [where for where, what in named(climbed) if what == "the seal does not hold"]
    assert unsealed == [f"record {seq}" for seq in range(1, 8)]
    secret(climbed).unlink()
    assert named(climbed) == [(f"commit {root}", "the chain's root is not goalseek's")]


@pytest.mark.slow
def test_a_snapshot_that_says_otherwise_is_named(played: Projects) -> None:
    project = played(*map(answer, range(2, 18)))
    path = project.results.with_name("standing.json")
    assert audited(project) == []
    path.write_text(path.read_text().replace('"keeps":', '"keeps":1'))
    assert named(project) == [("standing.json, keeps", "the snapshot differs from the records")]


def test_the_records_come_back_byte_for_byte_after_everything_is_gone_or_was_tampered_with(climbed: Project) -> None:
    before = climbed.results.read_bytes()
    climbed.results.write_bytes(before.replace(b'"value":2', b'"value":9')[:-7])
    assert audited(climbed, "--rebuild") == [] and climbed.results.read_bytes() == before
    shutil.rmtree(climbed.folder / ".goalseek")
    ended = climbed.run("audit", "--rebuild")
    assert ended.exit_code == 0 and "8 lines" in ended.stdout and "0 differences" in ended.stdout
    assert climbed.results.read_bytes() == before
    assert climbed.git("status", "--porcelain") == ""
    assert sorted(path.name for path in climbed.results.parent.iterdir()) == ["manifest.json", "results.jsonl"]
    assert climbed.climb()[-1]["outcome"] in ("kept", "reverted")
    assert audited(climbed) == []


def test_commits_that_git_has_lost_are_named_with_the_way_on(climbed: Project) -> None:
    names = climbed.git("rev-list", "--first-parent", "--max-count=2", LEDGER).splitlines()
    for name in names:
        (climbed.top / ".git/objects" / name[:2] / name[2:]).unlink()
    shutil.rmtree(climbed.top / ".git/goalseek/demo/recent")  # their second names
    assert named(climbed)[0] == (f"ledger commit {names[0]}", "the chain is broken")
    ended = climbed.run("iterate")
    assert ended.exit_code == 3 and names[0] in ended.stderr and "git fetch CLONE" in ended.stderr


def test_a_clone_still_checks_git(climbed: Project, tmp_path: Path) -> None:
    climbed.git("clone", "--quiet", str(climbed.top), str(tmp_path / "clone"))
    clone = Project(tmp_path / "clone", tmp_path / "clone")
    clone.git("fetch", "--quiet", "origin", "refs/goalseek/*:refs/goalseek/*")
    assert "8 records, 0 differences; seals not checked" in clone.run("audit").stdout
    clone.git("update-ref", TIP, "main")
    assert named(clone) == [(TIP, "a ref is at another commit")]


def test_a_climb_at_work_is_waited_for_by_nobody_and_forged_text_cannot_steer_the_terminal(climbed: Project) -> None:
    with (secret(climbed).parent / "lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert climbed.run("audit").exit_code == 4
    write_lines(climbed, *lines(climbed), "\x1b[2J")
    ended = climbed.run("audit")
    assert ended.exit_code == 1 and "\x1b" not in ended.stdout and "\\x1b[2J" in ended.stdout


BETTER = part("a", 2), part("b", 3), part("c", 9)
NOISE = "--run 'echo 1' --regex '([0-9]+)' --direction maximize -n 5"
WRITERS = {
    "climbs": [
        *("revert 3", "step", "step", "iterate --new --jobs 2 -n 2", "direct 'make it small'", "iterate --new"),
        *("direct --drop 1", "stop", "baseline", "iterate", "baseline --from HEAD", "iterate"),
    ],
    "asks": ["iterate", "approve 5", "iterate", "iterate", "decline 6", "iterate"],
    "measures": [
        *("settle", "compare main best -n 2", "settle", "noise -n 5", f"noise {NOISE}", "audit --rerun 2"),
        *("try", "wait", "exec --at best -- sh -c 'echo 1 > more'", "promote --measure", "promote --branch home"),
        *("promote --ablate --branch needed", "prune --keep 1", "report --settle -o night.html", "audit --rebuild"),
        *("claim -o gain.tar", "verify gain.tar"),
    ],
}
WRITE_NO_RECORD = {
    "brief",
    "completion",
    "demo",
    "doctor",
    "drive",
    "export",
    "help",
    "init",
    "log",
    "manifest",
    "mcp",
    "show",
    "skill",
    "status",
}


def reverted_climb(top: Path) -> Project:
    """Three kept changes, one of them taken back."""
    project = taking_back.climb(top, *BETTER)
    project.check("revert", "2")
    return project


def test_each_command_writes_or_does_not() -> None:
    writers = {words.split()[0] for sequence in WRITERS.values() for words in sequence}
    assert not writers & WRITE_NO_RECORD and writers | WRITE_NO_RECORD == COMMANDS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("sequence", WRITERS)
def test_the_audit_is_clean_after_every_command_that_writes(made_once: Projects, tmp_path: Path, sequence: str) -> None:
    project = made_once(reverted_climb, tmp_path / "repository")
    if sequence == "asks":
        project.set_manifest({**taking_back.SCOPE, "approve": {"before": "kept"}})
    project.set_moves(*BETTER, *[part("a", number) for number in range(20, 30)])
    project.write({"parts/d.txt": "40\n"})  # for a try
    for words in WRITERS[sequence]:
        ended = project.run(*shlex.split(words))
        assert ended.exit_code in (0, 5), (words, ended)
        loaded = goalseek.load(project.manifest)
        History(loaded.results).save_snapshot(load_standing(loaded), Seal(secret(project).read_bytes()))
        assert audited(project) == [], words
