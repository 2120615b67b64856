"""Ledgers that an older program made: a later one reads them, finds them whole, writes them again and climbs on.

They lie beside this file as they were made then, and are never made anew for a change of the program. Nothing of
goalseek is imported here: this holds whatever its modules are called.
"""

import csv
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from project import Project, copy_folder

Row = dict[str, Any]
PACKAGE = Path(__file__).parents[2] / "goalseek"
# Each ledger, with every kind of record that is in it: "iteration" by outcome and reason, "run" by why it began,
# "measurement" by who asked for it, "holdout" by what was looked at and what came of it.
KINDS = {
    "plain": """
        run first, run asked for, iteration baseline measured, iteration kept better, iteration kept simpler,
        iteration reverted worse, iteration reverted tie, iteration reverted below_min_delta, iteration reverted guard,
        iteration reverted not_valid, iteration reverted verify_failed, iteration reverted verify_timeout,
        iteration reverted no_metric, iteration reverted not_finite, iteration reverted unmeasurable,
        iteration skipped no_change, iteration skipped duplicate, iteration skipped out_of_scope,
        iteration skipped provider_failed""",
    "noisy": """
        run first, measurement init, measurement doctor, measurement noise, measurement settle, settle,
        iteration baseline measured, iteration kept better, iteration reverted worse, iteration reverted within_noise,
        holdout baseline begun, holdout baseline measured, holdout best begun, holdout best measured,
        holdout best failed""",
    "agent": """
        run first, run asked for, iteration baseline measured, iteration kept better, iteration reverted verify_failed,
        iteration skipped no_plan, iteration skipped provider_failed, iteration skipped provider_timeout,
        iteration skipped interrupted""",
    "review": """
        run first, iteration baseline measured, iteration kept better, iteration reverted worse,
        iteration reverted review_rejected, iteration reverted declined""",
    "tune": """
        run first, iteration baseline measured, iteration kept better, iteration reverted worse,
        iteration skipped duplicate""",
    "schema-1": """
        run first, run asked for, iteration baseline measured, iteration kept better, iteration reverted worse,
        iteration reverted tie, iteration reverted guard, iteration reverted verify_failed""",
    "several": """
        run first, run asked for, measurement noise, measurement settle, settle, iteration baseline measured,
        iteration kept better, iteration kept taken_back, iteration reverted worse, iteration reverted tie,
        iteration reverted outrun, iteration reverted seed_fixed, iteration reverted within_noise,
        iteration skipped conflict, iteration skipped out_of_scope, holdout baseline begun, holdout baseline measured,
        holdout best begun, holdout best measured""",
}
PROVIDERS = {
    "plain": {"", "scripted"},
    "noisy": {"", "scripted"},
    "agent": {"", "command", "scripted"},
    "review": {"", "command"},
    "tune": {"", "replay", "tune"},
    "schema-1": {"", "scripted"},
    "several": {"", "command", "person", "scripted"},
}
ATTEMPTS = {"moved", "verify_failed", "out_of_scope", "provider_failed", "no_change", "changes_requested"}
LEVELS = {("bubblewrap", "hidden"), ("landlock", "both"), ("none", "both"), ("none", "hidden"), ("none", "candidate")}
DIGESTS = {"script", "ruler", "prompts", "hidden_from", "share"}
NOTES = (
    "the baseline breaks a guard: size is 99",
    "the incumbent failed in run 2, and was measured once more",
    "a call in APPLY_CHANGE came to no answer; it is charged 100 tokens, 0.25 dollars",
    "an earlier invocation ended in the middle; gone on with from its context, plan",
    "programs that the provider left running in APPLY_CHANGE were ended",
    "shared files are not as at the baseline: datasets/a.txt",
    "sent back to its author, it came to nothing: provider_failed",
    "the manifest's scope has changed since the iteration began",
    "in APPLY_CHANGE command failed; scripted is asked",
    "review by command: APPROVED",
    "review by command: CHANGES_REQUESTED",
    "review by command: REJECTED",
    "review by command: no verdict that could be read",
    "review: It is too long.",
)
_JUDGE, _FINAL = (
    'run = "sh hidden/judge.sh", sees = "both" },',
    '{ name = "final", run = "sh hidden/final.sh", sees = "both" },',
)
REMOVED = {  # what is written now in place of keys that were removed
    "noisy": (
        (_JUDGE, f"{_JUDGE} {_FINAL}"),
        ('run = "sh hidden/final.sh"\nquery = "score"\nsees = "both"\n', 'command = "final"\n'),
    ),
    "several": (
        (_JUDGE, f"{_JUDGE} {_FINAL}"),
        (
            'run = "sh hidden/final.sh"\nquery = "final"\nsees = "both"\nwhen = "kept"\ntimeout = "1m"\n',
            'command = "final"\nquery = "final"\nwhen = "kept"\n',
        ),
        ('repeats = 2\naggregate = "mean"\n', ""),
    ),
}
REMOVED_PINNED = "metric.aggregate and metric.repeats, which were removed"
STORED = {  # what is stored of the iteration in the middle of which a ledger ends
    "noisy": "context, plan, change, candidate, evidence",
    "agent": "context, plan, change",
    "review": "context, plan, change, candidate, evidence, verdict, review",
    "schema-1": "context, plan, change, candidate",
}
FREE = ("guards", "seconds", "digests", "versions")  # whose keys are not the program's
ABSENT = "about_usd"  # the one key that is left out where there is nothing to tell
ADDED = "base_commit_hash"
ALL_ADDED = (ADDED, "turn_of")  # the keys that schema 2 has beside those of then


def open_ledger(folder: Path) -> Project:
    top = folder / "repository"
    return Project(top, top / "sub" if (top / "sub").exists() else top)


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory, original_datadir: Path) -> Path:
    folder = tmp_path_factory.mktemp("ledgers")
    safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    for name in KINDS:
        with tarfile.open(original_datadir / f"{name}.tar.xz") as archive:
            archive.extractall(folder, **safe)  # type: ignore[arg-type]
    for name, changes in REMOVED.items():
        manifest = folder / name / "repository" / "goalseek.toml"
        text = manifest.read_text()
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        manifest.write_text(text)
    return folder


@pytest.fixture(params=KINDS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def old(name: str, unpacked: Path, tmp_path: Path) -> Project:
    """The ledger in a folder where it never was before."""
    copy_folder(unpacked / name, tmp_path / name)
    return open_ledger(tmp_path / name)


@pytest.fixture(scope="module")
def everything(unpacked: Path) -> dict[str, list[Row]]:
    return {name: open_ledger(unpacked / name).records() for name in KINDS}


def assert_clean(project: Project, *arguments: str) -> None:
    """Records, git and seals agree, and each seal was checked."""
    last_line = project.check("audit", *arguments).splitlines()[-1]
    assert last_line == f"{len(project.records())} records, 0 differences; seals checked"


def climb_on(project: Project, count: int, rows: list[Row] | None = None) -> list[Row]:
    """So many more iterations, each keep approved where the manifest asks for a word; gives their records.

    ``rows`` are the records of those before, where the file has no longer all of them.
    """
    before = len(rows or project.iterations())
    for _ in range(2 * count):
        missing = before + count - max(before, len(project.iterations()))
        if not missing:
            break
        ended = project.run("iterate", "-n", str(missing))
        if ended.exit_code == 5:
            project.check("approve", str(len(project.iterations())))
        else:
            assert ended.exit_code == 0, ended.stderr
    return project.iterations()[before:]


def adopt(project: Project, name: str) -> None:
    """Pins the verifier anew where the pinned one has keys that were removed, as the program asks for it."""
    if name == "several":
        ended = project.run("iterate", "-n", "1")
        assert ended.exit_code == 2 and ended.stderr.startswith(f"goalseek: the pinned verifier has {REMOVED_PINNED}")
        assert "goalseek baseline pins the verifier that the manifest has now" in ended.stderr
        project.check("baseline")


def kind_of(row: Row) -> str:
    """As ``KINDS`` names it."""
    keys = {
        "iteration": ("outcome", "reason"),
        "run": ("began",),
        "measurement": ("asked_by",),
        "holdout": ("of", "reason"),
    }
    return " ".join([row["kind"], *(row[key] for key in keys.get(row["kind"], ()))])


def kinds_of(ledger: str) -> set[str]:
    return {" ".join(kind.split()) for kind in KINDS[ledger].split(",")}


def shapes(value: Any, place: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The keys of a record and of the objects in it, in order, by place."""
    if isinstance(value, dict):
        yield place, tuple(key for key in value if key not in (ABSENT, *ALL_ADDED))
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        if key not in FREE:
            yield from shapes(inner, place if isinstance(value, list) else f"{place}.{key}")


class TestWhatIsThere:
    def test_each_ledger_has_the_kinds_of_records_that_it_is_said_to_have(
        self, everything: dict[str, list[Row]]
    ) -> None:
        assert {name: {kind_of(row) for row in rows} for name, rows in everything.items()} == {
            name: kinds_of(name) for name in KINDS
        }

    def test_every_kind_outcome_and_reason_that_the_program_knows_is_there(self) -> None:
        (path,) = PACKAGE.rglob("records.schema.json")
        schema = json.loads(path.read_text())["$defs"].values()
        kinds = {table["properties"]["kind"]["const"]: table for table in schema if "kind" in table["properties"]}
        required = kinds.keys() - {"iteration"}
        for rule in kinds["iteration"]["allOf"]:
            outcome = rule["if"]["properties"]["outcome"]["const"]
            required |= {f"iteration {outcome} {reason}" for reason in rule["then"]["properties"]["reason"]["enum"]}
        there = {
            kind if kind.startswith("iteration ") else kind.split()[0] for name in KINDS for kind in kinds_of(name)
        }
        assert required == there

    def test_what_else_a_record_may_hold_is_there(self, everything: dict[str, list[Row]]) -> None:
        rows = [row for rows in everything.values() for row in rows if row["kind"] == "iteration"]
        assert {name: {row.get("provider", "") for row in everything[name]} for name in KINDS} == PROVIDERS
        assert {attempt["reason"] for row in rows for attempt in row["attempts"]} == ATTEMPTS
        assert {attempt["commit_hash"] is None for row in rows for attempt in row["attempts"]} == {True, False}
        assert {(row["isolation"]["sandbox"], row["isolation"]["verifier"]) for row in rows} == LEVELS
        assert {key for row in rows for key in row["digests"]} == DIGESTS
        assert {row["epoch"] for row in rows} == {0, 1, 2}
        assert {len(row["tree_hash"]) for row in rows if row["tree_hash"]} == {40, 64}
        for key in ("directions", "planned_files", "dropped_files", "guards", "model", "rollback_commit_hash"):
            assert any(row[key] for row in rows), key
        usages = [row["usage"] for row in rows]
        assert any(usage["estimated"] for usage in usages) and any("about_usd" in usage for usage in usages)
        assert {run["of"] for row in rows for run in row["runs"]} == {"candidate", "incumbent"}
        assert {row["interval"] is None for row in everything["noisy"] if row["kind"] == "settle"} == {True, False}
        assert any(row["metric"]["odds"] for row in rows) and any(
            row["gap"] for row in everything["noisy"] if "gap" in row
        )
        for note in NOTES:
            assert any(line.startswith(note) for row in rows for line in row["notes"]), note


class TestReading:
    def test_records_agree_log_tells_what_is_stored_and_what_is_gone_or_damaged_is_mended_byte_for_byte(
        self, old: Project, tmp_path: Path
    ) -> None:
        assert_clean(old)
        lines = [json.dumps(row) for row in old.iterations()]
        assert old.check("log", "--json").splitlines() == lines
        count = json.loads(old.check("export", "--to", "tensorboard", str(tmp_path / "runs"), "--json"))["iterations"]
        assert count == len(lines)
        before = old.results.read_bytes()
        damaged = before.splitlines(keepends=True)
        damaged[1] = damaged[1].replace(b'"epoch":0', b'"epoch":7')
        old.results.write_bytes(b"".join(damaged))
        ended = old.run("audit")
        assert ended.exit_code == 1
        assert "results.jsonl line 2, epoch: a line was changed: expected 0, found 7" in ended.stdout
        assert_clean(old, "--rebuild")
        assert old.results.read_bytes() == before
        old.results.unlink()
        assert_clean(old, "--rebuild")
        assert old.results.read_bytes() == before

    @pytest.mark.slow
    def test_every_view_shows_it(self, old: Project, tmp_path: Path) -> None:
        best = json.loads(old.check("status", "--json"))["best"]["iteration"]
        assert f"iteration {best}" in old.check("status")
        table = old.check("log").splitlines()
        for row in old.iterations():
            assert any(row["outcome"] in line and row["reason"] in line for line in table)
            shown = old.check("show", str(row["iteration"]))
            assert row["why"] in " ".join(shown.split()), shown
            assert json.loads(old.check("show", str(row["iteration"]), "--json")) == row
        for form in ("md", "html"):
            assert row["metric"]["name"] in old.check("report", "-o", "-", "--format", form)
        old.check("export", "--to", "csv", str(tmp_path / "rows.csv"))
        with (tmp_path / "rows.csv").open(newline="") as file:
            assert len(list(csv.reader(file))) == len(old.iterations()) + 1
        old.check("promote")

    @pytest.mark.slow
    def test_a_commit_measured_again_has_the_number_of_then(self, old: Project, name: str) -> None:
        kept = [
            row for row in old.iterations() if row["outcome"] == "kept" and row["epoch"] == old.records()[-1]["epoch"]
        ]
        if name == "several":
            ended = old.run("audit", "--rerun", str(kept[0]["iteration"]))
            assert ended.exit_code == 2 and REMOVED_PINNED in ended.stderr
        elif kept:
            assert "the same" in old.check("audit", "--rerun", str(kept[0]["iteration"]))
        else:
            assert name == "noisy", "its last epoch has a baseline only"


@pytest.mark.slow
class TestGoingOn:
    def test_a_torn_end_is_mended_it_climbs_on_and_no_old_line_changes(
        self, old: Project, name: str, everything: dict[str, list[Row]]
    ) -> None:
        before, old_rows = old.results.read_bytes(), old.iterations()
        old.results.write_bytes(before[: -1 if name in ("plain", "agent") else -200])
        adopt(old, name)
        old_rows = max(old_rows, old.iterations(), key=len)
        new = climb_on(old, 2, old_rows)
        first = old_rows[-1]["iteration"] + 1
        assert [row["iteration"] for row in new] == [first, first + 1]
        assert {row["outcome"] for row in new} <= {"kept", "reverted"}
        best = next(row for row in reversed(old_rows) if row["outcome"] in ("baseline", "kept"))
        assert new[0][ADDED] == best["commit_hash"]
        assert old.git("rev-parse", f"{new[0]['parent_commit_hash']}:") == best["tree_hash"]
        log = old.git("log", "--first-parent", "--format=%s", "refs/goalseek/demo/ledger").splitlines()
        subjects = [f"goalseek {row['iteration']} {row['outcome']} {row['reason']}" for row in reversed(new)]
        titles = [line for line in log if line[9:10].isdigit()]
        assert titles[:2] == subjects
        if name != "several":  # it was made when messages had titles
            assert titles == subjects and sum(line.startswith("{") for line in log) == len(everything[name])
        assert (old.top / ".git/goalseek/demo/ledger").read_text()[:12] == "newer schema", "an older program shows that"
        assert old.results.read_bytes().startswith(before)
        assert_clean(old)
        shapes_of_then = {shape for rows in everything.values() for row in rows for shape in shapes(row, row["kind"])}
        for row in old.records()[len(everything[name]) :]:
            assert not set(shapes(row, row["kind"])) - shapes_of_then, row

    @pytest.mark.parametrize("name", STORED)
    def test_an_iteration_under_way_is_gone_on_with_from_what_is_stored(self, old: Project, name: str) -> None:
        (record,) = climb_on(old, 1)
        (answers,) = [note.split(" stored answers: ")[1] for note in record["notes"] if " stored answers: " in note]
        assert answers == STORED[name]

    @pytest.mark.slow
    def test_new_records_of_every_kind_have_the_keys_of_then_in_their_order(
        self, unpacked: Path, tmp_path: Path, everything: dict[str, list[Row]]
    ) -> None:
        copy_folder(unpacked / "noisy", tmp_path / "noisy")
        noisy, keys = open_ledger(tmp_path / "noisy"), dict[str, list[str]]()
        for row in everything["noisy"]:
            keys.setdefault(row["kind"], list(row))
        before = len(noisy.records())
        adopts = "key verify, key holdout differ from the pinned verifier; goalseek baseline adopts them"
        assert adopts in noisy.run("iterate", "-n", "1").stderr
        noisy.check("baseline")
        noisy.check("iterate", "-n", "2", "--new")
        noisy.check("report", "--settle", "-o", str(tmp_path / "report.md"))
        new = noisy.records()[before:]
        assert {row["kind"] for row in new} == {"run", "iteration", "measurement", "settle", "holdout"}
        assert all([key for key in row if key not in ALL_ADDED] == keys[row["kind"]] for row in new)
        assert_clean(noisy)

    @pytest.mark.slow
    def test_another_ruler_is_taken_on_it(self, old: Project, name: str) -> None:
        adopt(old, name)
        climb_on(old, 1)
        old.write({"hidden/another.txt": "another\n"})
        old.git("add", "hidden", folder=old.folder)
        old.git("commit", "--quiet", "-m", "another ruler")
        epoch = old.records()[-1]["epoch"]
        old.check("baseline")
        assert old.records()[-1]["epoch"] == epoch + 1
        assert_clean(old)
