"""``goalseek compare``: two revisions, or the checkout, measured in turn; nothing is recorded, nothing is touched."""

import json
import os
import signal
import time
from pathlib import Path

import pytest
from project import Project, Projects, answer, home, until

from goalseek.git.as_user import UsersCheckout
from goalseek.git.location import locate
from goalseek.git.repository import Repository

JUDGE = """\
if grep -q fail answer.json; then echo "told to fail" >&2; exit 3; fi
base=$(sed -n 's/.*"score": \\([0-9]*\\).*/\\1/p' answer.json)
echo "$base" >> "$HOME/journal"
if [ -e "$HOME/slow" ] && [ "$(wc -l < "$HOME/journal")" -ge 3 ]; then sleep 60; fi
if [ -e "$HOME/noisy" ]; then base="$base.$(printf %010d "$GOALSEEK_SEED")"; fi
printf '{"score": %s, "size": 3}\\n' "$base" > "$GOALSEEK_RUN_DIR/metrics.json"
"""


@pytest.fixture
def two(make_project: Projects) -> Project:
    """HEAD scores 12, the commit before it 10."""
    project = make_project(files={"answer.json": answer(10), "hidden/judge.sh": JUDGE, "other.txt": "read\n"})
    project.write({"answer.json": answer(12)})
    project.commit()
    return project


def measured() -> list[int]:
    """What was measured, in order, by its score."""
    return [int(line) for line in (home() / "journal").read_text().split()]


def test_equal_values_are_believed_after_two_pairs_and_a_worse_one_ends_with_0_too(two: Project) -> None:
    before = two.users()
    shown = two.check("compare", "HEAD~1")
    assert "HEAD against HEAD~1: 20% better" in shown and "exactly" in shown
    assert measured() == [10, 12, 12, 10], "in turn, and every other pair the other way round"
    assert (two.traces(), two.users()) == ([], before)
    found = two.ask("compare", "HEAD", "HEAD~1")
    assert (found["better"], found["is_sure"], found["is_exact"], found["pairs"]) == ("before", True, True, 2)
    assert (found["before"]["median"], found["after"]["median"]) == (12, 10)
    assert found["difference"] < 0


def test_under_noise_there_are_pairs_an_interval_and_fresh_seeds(two: Project) -> None:
    (home() / "noisy").touch()
    found = two.ask("compare", "HEAD~1", "-n", "4")
    runs = found["before"]["runs"] + found["after"]["runs"]
    assert (found["pairs"], found["is_exact"], found["is_sure"]) == (4, False, True)
    assert found["interval"][0] < found["difference"] < found["interval"][1]
    assert measured() == [10, 12, 12, 10, 10, 12, 12, 10]
    again = two.ask("compare", "HEAD~1", "-n", "1")
    runs += again["before"]["runs"] + again["after"]["runs"]
    assert len({run["seed"] for run in runs}) == 10
    assert (again["interval"], again["is_sure"]) == (None, False)


def test_the_checkout_is_measured_and_neither_index_nor_files_change(two: Project, tmp_path: Path) -> None:
    (two.top / "other.txt").unlink()
    two.write({"answer.json": answer(13), "staged.txt": "staged\n"})
    two.git("add", "staged.txt")
    two.write({"answer.json": answer(15), "staged.txt": "and changed again\n"})
    before = two.users()
    found = two.ask("compare", "--dirty")
    assert (found["before"]["revision"], found["after"]["revision"]) == ("HEAD", "the checkout")
    assert (found["before"]["median"], found["after"]["median"], found["after"]["commit"]) == (12, 15, None)
    assert (two.traces(), two.users()) == ([], before)
    assert two.ask("compare", "HEAD~1", "--dirty")["before"]["median"] == 10
    two.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "other"))
    other = Project(tmp_path / "other", tmp_path / "other")
    other.write({"answer.json": answer(99)})
    assert other.ask("compare", "--dirty", "-n", "1")["after"]["median"] == 99, "a worktree of its own is the checkout"


def test_the_tree_of_the_checkout_is_what_a_commit_of_all_would_be(two: Project) -> None:
    two.write({".gitignore": "*.log\n", "a.log": "ignored\n", "new/deep.txt": "new\n", "answer.json": answer(3)})
    (two.top / "other.txt").unlink()
    (two.top / "link").symlink_to("answer.json")
    (two.top / "tool.sh").write_text("true\n")
    (two.top / "tool.sh").chmod(0o755)
    two.git("rm", "--cached", "--quiet", "hidden/judge.sh")
    before = two.users()
    with Repository(locate(two.top), "demo") as repository:
        tree = UsersCheckout(repository).read()[0]
        assert list(repository.objects.scratch.iterdir()) == []
    assert two.users() == before
    assert set(two.git("ls-tree", "-r", "--name-only", tree).split()) >= {"link", "new/deep.txt", "hidden/judge.sh"}
    two.commit()
    assert two.git("rev-parse", "HEAD^{tree}") == tree


def test_what_cannot_be_compared_is_refused(two: Project) -> None:
    for arguments, said in (
        ((), "compare needs a revision"),
        (("nothing",), "nothing: there is no such commit"),
        (("HEAD~1", "nothing"), "or best, baseline or an iteration's number"),
        (("HEAD~1", "best"), "best: nothing is measured yet"),
        (("7",), "7: there is no such commit, and there is no iteration 7"),
        (("HEAD",), "are the same tree"),
        (("--dirty",), "HEAD and the checkout are the same tree"),
        (("HEAD~1", "HEAD", "--dirty"), "--dirty and B exclude each other"),
        (("HEAD~1", "-n", "0"), "at least 1"),
        (("HEAD", ""), "there is no such commit"),
    ):
        assert said in two.fail(2, "compare", *arguments)
    assert two.traces() == []


def test_what_only_a_climb_would_refuse_is_compared(two: Project) -> None:
    two.set_manifest({"log": {"home": "."}})
    two.write({"logs/mine.txt": "not goalseek's\n"})
    assert two.ask("compare", "HEAD~1")["pairs"] == 2
    two.set_manifest({"metric": {"name": "t", "source": "wall", "direction": "minimize"}})
    extra = two.manifest.read_text().replace("[[verify]]", '[[verify]]\nname = "other"\nrun = "true"\n\n[[verify]]', 1)
    two.manifest.write_text(extra)
    assert two.ask("compare", "HEAD~1", "-n", "1")["metric"] == "t"


def test_another_verifier_or_none_is_refused_by_name(two: Project) -> None:
    two.write({"hidden/judge.sh": JUDGE + "# stricter\n"})
    ended = two.run("compare", "--dirty")
    assert ended.exit_code == 2
    assert "HEAD and the checkout do not have the same verifier: hidden/judge.sh" in ended.stderr
    two.commit()
    two.git("mv", "hidden", "elsewhere")
    two.commit()
    ended = two.run("compare", "HEAD~3", "HEAD")
    assert ended.exit_code == 2
    assert "HEAD: scope.hidden: 'hidden/**' matches no committed file" in ended.stderr
    assert "HEAD~3: there is no such commit" not in ended.stderr
    assert not (home() / "journal").exists() and two.traces() == []


def test_what_differs_beside_the_number_is_named_equal_or_without_a_number(two: Project) -> None:
    two.write({"other.txt": "read by the code\n"})
    ended = two.run("compare", "--dirty", "-n", "1")
    assert ended.exit_code == 0
    assert "and each side is measured with its version: other.txt" in ended.stderr
    assert "the checkout against HEAD: no difference" in ended.stdout
    two.write({"answer.json": answer(12, 99)})
    ended = two.run("compare", "--dirty")
    assert "the checkout against HEAD: no difference (deterministic)" in ended.stdout
    two.write({"answer.json": answer(12, more='"fail": 1,\n')})
    ended = two.run("compare", "--dirty")
    assert ended.exit_code == 1
    assert "the checkout has no number: judge ended with 3" in ended.stderr and "| told to fail" in ended.stderr
    assert two.traces() == []
    two.git("checkout", "--quiet", "--", ".")
    two.set_manifest({"guard": [{"query": "size", "max": 5}]})
    two.commit()
    assert "size: 3 and 3" in two.run("compare", "HEAD~2", "-n", "1").stdout


@pytest.mark.slow
def test_what_a_climb_names_is_compared_and_nothing_is_recorded_beside_it(two: Project) -> None:
    two.set_moves(answer(14), answer(11), answer(12), answer(16))
    two.climb("iterate", "-n", "3")
    records, before = two.records(), two.users()
    found = two.ask("compare", "main", "goalseek/demo")
    assert (found["before"]["median"], found["after"]["median"]) == (12, 14)
    shown = two.check("compare", "best", "2")
    assert f"iteration 2 {two.iterations()[2]['commit_hash'][:12]}  median 11 " in shown
    assert "iteration 2 against best: 21.4% worse" in shown
    assert two.ask("compare", "baseline", "1")["after"]["revision"] == "iteration 1"
    assert "iteration 3 has no candidate" in two.fail(2, "compare", "3")
    assert two.check("show", "baseline", "--json") == two.check("show", "0", "--json")
    assert (two.records(), two.users()) == (records, before)
    assert two.climb()[-1]["metric"]["value"] == 16
    two.check("audit")
    two.git("branch", "best", "HEAD~1")
    assert two.ask("compare", "best")["before"]["median"] == 10, "git's names come first"


@pytest.mark.slow
def test_an_interrupt_shows_the_pairs_that_were_made(two: Project) -> None:
    (home() / "slow").touch()
    process = two.start("compare", "HEAD~1")
    until(lambda: (home() / "journal").exists() and len(measured()) >= 3)
    time.sleep(0.2)  # the judge is at its sleep by then
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 130, stderr
    assert "HEAD against HEAD~1: 20% better, 1 pair" in stdout
    assert "interrupted after 1 of 5 pairs" in stderr
    assert two.traces() == []


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_a_subfolder_and_hidden_from(make_project: Projects, tmp_path: Path, object_format: str) -> None:
    elsewhere = tmp_path / "verifier" / "hidden"
    elsewhere.mkdir(parents=True)
    (elsewhere / "judge.sh").write_text(JUDGE)
    scope = {"writable": ["answer.json"], "hidden_from": str(elsewhere.parent)}
    project = make_project(
        files={"answer.json": answer(10)}, manifest={"scope": scope}, below="sub", object_format=object_format
    )
    project.write({"answer.json": answer(11)})
    before = project.users()
    shown = project.check("compare", "--dirty", "--json")
    found = json.loads(shown)
    assert (found["before"]["median"], found["after"]["median"]) == (10, 11)
    assert (project.traces(), project.users()) == ([], before)


@pytest.mark.slow
def test_an_edit_of_the_same_size_in_the_second_of_the_commit_is_seen_later(two: Project) -> None:
    two.write({"answer.json": answer(34)})
    index = two.top / ".git" / "index"
    two.git("add", "answer.json")
    moment = index.stat().st_mtime_ns // 10**9 * 10**9
    for path in (two.top / "answer.json", index):
        os.utime(path, ns=(moment, moment))
    two.git("update-index", "--refresh")
    two.write({"answer.json": answer(56)})
    for path in (two.top / "answer.json", index):
        os.utime(path, ns=(moment, moment))
    if time.time_ns() // 10**9 == moment // 10**9:
        time.sleep(1)
    assert two.ask("compare", "--dirty", "-n", "1")["after"]["median"] == 56
