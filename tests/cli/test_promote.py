"""``goalseek promote``: the kept changes go home as the user's own commits, and nothing of theirs is touched."""

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from project import FILES, Ended, Project, Projects, answer
from promoting import PAGE, all_refs, hook, objects, subjects, tree

FILES_OF_THE_CLIMB = ["answer.json", "src/old.txt", "src/page.txt", "src/picture.bin", "src/tool.sh"]
SUBJECTS = ["Spell three", "Tidy up", "Spell fifteen"]
EXPOSED = "candidate code could read the hidden files"
SIGNER = """\
#!/bin/sh
cat > /dev/null
echo "[GNUPG:] SIG_CREATED " >&2
printf -- "-----BEGIN PGP SIGNATURE-----\\nsigned\\n-----END PGP SIGNATURE-----\\n"
"""


def promote(project: Project, *arguments: str) -> Ended:
    ended = project.run("promote", *arguments)
    assert ended.exit_code == 0, ended.stderr
    return ended


def numbers(project: Project, *arguments: str) -> list[list[int]]:
    """The iterations of each commit that a preview tells."""
    return [commit["iterations"] for commit in project.ask("promote", *arguments)["commits"]]


def refused(project: Project, code: int, *arguments: str) -> str:
    """Promotes, which must fail and leave every ref and the user's files as they are; gives what it says."""
    before, refs = project.users(), all_refs(project)
    ended = project.run("promote", *arguments)
    assert (ended.exit_code, ended.stdout) == (code, ""), ended
    assert (project.users(), all_refs(project)) == (before, refs)
    return ended.stderr


def best_tree(project: Project) -> str:
    return tree(project, project.iterations()[5]["commit_hash"])


def without_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("GIT_AUTHOR_", "GIT_COMMITTER_"))]:
        monkeypatch.delenv(name)


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this test's temporary folders are."""
    place = tmp_path / "scratch"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    return place


class TestWhatItMakes:
    def test_without_a_target_it_previews_says_how_to_make_it_and_leaves_no_object(self, climbed: Project) -> None:
        main = climbed.git("rev-parse", "main")
        climbed.write({"other.txt": "moved on\n"})
        climbed.commit("meanwhile")
        before, refs, stored = climbed.users(), all_refs(climbed), objects(climbed)
        shown = promote(climbed).stdout
        for expected in ("3 commits", *SUBJECTS, "src/picture.bin", "those of the best commit", "preview"):
            assert expected in shown
        assert "step back" not in shown
        shown = promote(climbed, "--onto", "main", "--squash").stdout
        assert shown.endswith("to make the commits: goalseek promote --branch NAME --onto main --squash\n"), shown
        answer = climbed.ask("promote")
        assert [commit["iterations"] for commit in answer["commits"]] == [[1], [3], [5]]
        assert answer["commits"][1]["files"] == ["answer.json", "src/old.txt", "src/picture.bin", "src/tool.sh"]
        assert (answer["branch"], answer["commit"], answer["base"], answer["unlike_best"]) == (None, None, main, [])
        promote(climbed, "--patch", "../home.patch")
        assert (climbed.users(), all_refs(climbed), objects(climbed)) == (before, refs, stored)

    def test_a_branch_has_kept_changes(self, climbed: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        without_identity(monkeypatch)
        (tmp_path / "signer").write_text(SIGNER)
        (tmp_path / "signer").chmod(0o755)
        for name, value in (
            *(("user.name", "Zoë Configured"), ("user.email", "zoe@example.com")),
            *(("gpg.program", str(tmp_path / "signer")), ("commit.gpgSign", "true")),
        ):
            climbed.git("config", name, value)
        climbed.write({"notes.txt": "edited\n"})
        climbed.git("stash", "push", "--quiet")
        climbed.write({"answer.json": "edited\n", "untracked.txt": "new\n", "staged.txt": "staged\n"})
        climbed.git("add", "staged.txt")
        before = climbed.users()
        promote(climbed, "--branch", "better")
        after = climbed.users()
        made = set(after.pop("refs").splitlines()) - set(before.pop("refs").splitlines())
        assert (after, made) == (before, {f"refs/heads/better {climbed.git('rev-parse', 'better')}"})
        assert subjects(climbed, "main..better") == SUBJECTS
        assert climbed.git("rev-list", "--min-parents=2", "main..better") == ""
        assert climbed.git("merge-base", "main", "better") == climbed.git("rev-parse", "main")
        assert tree(climbed, "better") == best_tree(climbed)
        changed = climbed.git("diff", "--name-status", "better~2", "better~1").splitlines()
        assert changed == ["M\tanswer.json", "D\tsrc/old.txt", "A\tsrc/picture.bin", "M\tsrc/tool.sh"]
        assert climbed.git("diff", "--name-only", "better~1", "better").splitlines() == ["answer.json", "src/page.txt"]
        message = climbed.git("log", "-1", "--format=%B", "better~1")
        assert message.rstrip().split("\n\n") == [
            "Tidy up",
            climbed.iterations()[3]["why"],
            f"score: 3 (was 2); {EXPOSED}",
        ]
        people = climbed.git("log", "--format=%an <%ae> %cn <%ce>", "main..better").splitlines()
        assert people == ["Zoë Configured <zoe@example.com> Zoë Configured <zoe@example.com>"] * 3
        for commit in climbed.git("rev-list", "main..better").splitlines():
            assert "\ngpgsig -----BEGIN PGP SIGNATURE-----\n signed\n" in climbed.git("cat-file", "commit", commit)

    def test_a_squash_is_one_commit_and_a_patch_a_mailbox(self, climbed: Project, tmp_path: Path) -> None:
        (whole,) = climbed.ask("promote", "--squash")["commits"]
        assert (whole["iterations"], whole["files"]) == ([1, 3, 5], FILES_OF_THE_CLIMB)
        assert whole["message"].endswith(f"* Spell three\n* Tidy up\n* Spell fifteen\n\nscore: 4 (was 1); {EXPOSED}\n")
        promote(climbed, "--branch", "whole", "--squash")
        assert len(subjects(climbed, "main..whole")) == 1
        assert climbed.git("log", "-1", "--format=%B", "whole").rstrip() == whole["message"].rstrip()
        patch = tmp_path / "home.patch"
        patch.write_text("mine\n")
        nowhere = "no/such/folder/home.patch"
        assert nowhere in refused(climbed, 2, "--branch", "better", "--patch", nowhere)
        refused(climbed, 2, "--patch", "")
        hook(climbed, "pre-commit", "exit 1")
        refused(climbed, 3, "--branch", "better", "--patch", str(patch))
        assert patch.read_text() == "mine\n", "it takes the place of a file only when all went well"
        refs = all_refs(climbed)
        promote(climbed, "--patch", str(patch))
        assert all_refs(climbed) == refs
        assert [path.name for path in tmp_path.iterdir() if "patch" in path.name] == ["home.patch"]
        (climbed.top / ".git/hooks/pre-commit").unlink()
        climbed.git("switch", "--quiet", "--create", "mailed")
        climbed.git("am", "--quiet", str(patch))
        assert subjects(climbed, "main..mailed") == SUBJECTS
        assert "score: 3 (was 2)" in climbed.git("log", "-1", "--format=%B", "mailed~1")
        assert tree(climbed, "whole") == tree(climbed, "mailed") == best_tree(climbed)

    def test_a_patch_on_standard_output_is_a_mailbox_and_leaves_the_rest_to_the_other(self, climbed: Project) -> None:
        ended = promote(climbed, "--patch", "-", "--branch", "better")
        assert ended.stdout[:5] == "From "
        assert "better" not in ended.stdout and "branch better is at" in ended.stderr
        for more in ("--json", "--query=base"):
            refused(climbed, 2, "--patch", "-", more)
        climbed.git("am", "--quiet", stdin=ended.stdout.encode())
        assert tree(climbed, "HEAD") == tree(climbed, "better")

    @pytest.mark.slow
    def test_after_further_baselines_and_merges_what_is_new_goes_home_and_no_revert(self, climbed: Project) -> None:
        climbed.write({"other.txt": "the ruler changed\n"})
        head = climbed.commit("a new ruler")
        climbed.check("baseline")
        assert climbed.climb("iterate")[-1]["outcome"] == "kept"
        answer = climbed.ask("promote")
        assert [commit["iterations"] for commit in answer["commits"]] == [[1], [3], [5], [7]]
        assert (answer["base"], answer["unlike_best"]) == (head, [])
        earlier = [" (under an earlier verifier)" in commit["message"] for commit in answer["commits"]]
        assert earlier == [True, True, True, False]
        (whole,) = climbed.ask("promote", "--squash")["commits"]
        # Numbers of two rulers are never compared.
        assert whole["message"].endswith(f"* Further\n\nscore: 7 (was 4); {EXPOSED}\n")
        promote(climbed, "--branch", "better")
        assert subjects(climbed, "main..better") == [*SUBJECTS, "Further"]
        assert tree(climbed, "better") == tree(climbed, climbed.iterations()[-1]["commit_hash"])
        climbed.git("merge", "--quiet", "--ff-only", "better")
        climbed.check("baseline")
        climbed.climb("iterate")
        promote(climbed, "--branch", "again")
        assert subjects(climbed, "again") == ["start", "a new ruler", *SUBJECTS, "Further", "Further"]
        manifest = climbed.manifest.read_text()
        climbed.git("switch", "--quiet", "--orphan", "unborn")
        climbed.manifest.write_text(manifest)
        promote(climbed)
        climbed.git("switch", "--quiet", "--force", "main")
        climbed.write({"src/page.txt": "another page\n"})
        head = climbed.commit("other code")
        climbed.check("baseline", "--from", "main")
        climbed.climb("iterate")
        answer = climbed.ask("promote")
        assert ([commit["iterations"] for commit in answer["commits"]], answer["base"]) == ([[11]], head)
        promote(climbed, "--branch", "other")
        assert tree(climbed, "other") == tree(climbed, climbed.iterations()[-1]["commit_hash"])

    def test_with_a_candidate_in_the_air_only_what_was_kept_goes_home(self, played: Projects) -> None:
        project = played(answer(2), more=(answer(3, more='"hang": 1,\n'),))
        best = project.iterations()[-1]["commit_hash"]
        project.kill_when(project.run_folder(2) / "changes.diff", "iterate")
        promote(project, "--branch", "better")
        assert tree(project, "better") == tree(project, best)

    def test_what_somebody_wrote_into_results_or_ledger_or_took_away_does_not_get_home(self, climbed: Project) -> None:
        results, ledger = climbed.top / ".goalseek/demo/logs/results.jsonl", "refs/goalseek/demo/ledger"
        best, other = climbed.iterations()[5], climbed.iterations()[4]
        text = results.read_text()
        forged = text.replace(best["tree_hash"], other["tree_hash"]).replace(best["commit_hash"], other["commit_hash"])
        results.write_text(forged.replace("Spell fifteen", "Forged"))
        promote(climbed, "--branch", "better")
        assert (tree(climbed, "better"), subjects(climbed, "main..better")) == (
            tree(climbed, best["commit_hash"]),
            SUBJECTS,
        )
        results.write_text(text)
        lost = climbed.iterations()[3]["commit_hash"]
        place = climbed.top / ".git/objects" / lost[:2] / lost[2:]
        shutil.rmtree(climbed.top / ".git/goalseek/demo/recent")
        place.rename(place.with_name("away"))
        said = refused(climbed, 3)
        assert f"git does not have the object {lost} any more" in said and "git fetch CLONE" in said
        place.with_name("away").rename(place)
        head = climbed.git("log", "--first-parent", "--format=%H", "--fixed-strings", f"--grep={best['seal']}", ledger)
        message = climbed.git("log", "-1", "--format=%B", head).rstrip("\n")
        message = message.replace(best["tree_hash"], other["tree_hash"])
        made = climbed.git("commit-tree", f"{head}^{{tree}}", "-p", f"{head}^1", stdin=message.encode())
        climbed.git("update-ref", ledger, made)
        said = refused(climbed, 3, "--branch", "forged")
        assert best["commit_hash"] in said and "goalseek audit" in said
        climbed.git("update-ref", "-d", ledger)
        said = refused(climbed, 3, "--branch", "forged")
        assert "git fetch CLONE 'refs/goalseek/demo/*:refs/goalseek/demo/*'" in said


class TestBases:
    def test_on_a_base_that_moved_unmeasured_files_are_named(self, climbed: Project) -> None:
        climbed.git("rm", "--quiet", "notes.txt")
        climbed.git("mv", "other.txt", "moved.txt")
        page = PAGE.replace("line 9 of the page", "line nine")
        climbed.write({"src/page.txt": page, "hidden/judge.sh": "# another ruler\n", "new/deep/file": "new\n"})
        climbed.write({"src/tool.sh": "echo another tool\n"})
        moved = climbed.commit("meanwhile")
        assert climbed.ask("promote", "--onto", "main")["unlike_best"] == ["src/page.txt", "src/tool.sh"]
        assert "src/page.txt, src/tool.sh as well" in promote(climbed, "--onto", "main").stdout
        before = climbed.users()
        promote(climbed, "--branch", "better", "--onto", "main")
        assert climbed.git("merge-base", "main", "better") == moved
        assert subjects(climbed, "main..better") == SUBJECTS
        lines = climbed.git("show", "better:src/page.txt").splitlines()
        assert (lines[2], lines[8], lines[14]) == ("line three", "line nine", "line fifteen")
        mode, _, blob, _ = climbed.git("ls-tree", "better", "src/tool.sh").split()
        assert (mode, blob) == ("100755", climbed.git("rev-parse", "main:src/tool.sh")), "a mode and a content"
        assert climbed.git("diff", "--name-only", "main", "better").splitlines() == FILES_OF_THE_CLIMB
        best = climbed.iterations()[5]["commit_hash"]
        unlike = climbed.git("diff", "--name-only", best, "better", "--", "answer.json", "src").splitlines()
        assert unlike == ["src/page.txt", "src/tool.sh"]
        assert {**climbed.users(), "refs": ""} == {**before, "refs": ""}

    def test_a_base_is_any_commit_and_may_have_renamed_a_file(self, climbed: Project) -> None:
        head = climbed.git("rev-parse", "main")
        climbed.git("tag", "--annotate", "--message", "one", "v1")
        climbed.git("update-ref", "refs/remotes/origin/main", "main")
        for base in ("v1", head, "origin/main", "HEAD"):
            assert climbed.ask("promote", "--onto", base)["base"] == head
        climbed.git("tag", "a-tree", "HEAD^{tree}")
        climbed.git("symbolic-ref", "refs/heads/unborn", "refs/heads/nothing")
        for base in ("", "nowhere", "^main", "main..main", "a-tree", "unborn"):
            assert f"--onto {base}: there is no such commit" in refused(climbed, 2, "--branch", "no", "--onto", base)
        climbed.git("mv", "src/page.txt", "src/sheet.txt")
        climbed.commit("rename")
        promote(climbed, "--branch", "better", "--onto", "main")
        lines = climbed.git("show", "better:src/sheet.txt").splitlines()
        assert (lines[2], lines[14]) == ("line three", "line fifteen")
        assert "src/page.txt" not in tree(climbed, "better")
        climbed.git("reset", "--quiet", "--hard", head)
        climbed.git("checkout", "--quiet", climbed.iterations()[1]["commit_hash"], "--", "answer.json", "src/page.txt")
        climbed.commit("taken by hand")
        assert numbers(climbed, "--onto", "main") == [[3], [5]]

    def test_a_conflict_names_the_change_and_the_files_and_nothing_is_written(self, climbed: Project) -> None:
        def link() -> None:
            (climbed.top / "src/page.txt").unlink()
            (climbed.top / "src/page.txt").symlink_to("old.txt")

        def file_for_a_folder() -> None:
            shutil.rmtree(climbed.top / "src")
            climbed.write({"src": "a file\n"})

        edited = PAGE.replace("line 15 of the page", "line XV")
        changes: list[tuple[Callable[[], object], tuple[str, ...]]] = [
            (link, ("1 (Spell three)", "src/page.txt (distinct modes)")),
            (lambda: climbed.git("mv", "src/old.txt", "src/new.txt"), ("3 (Tidy up)", "src/new.txt (rename/delete)")),
            (lambda: climbed.git("mv", "src", "lib"), ("3 (Tidy up)", "lib/picture.bin (directory rename suggested)")),
            (file_for_a_folder, ("1 (Spell three)", "src (file/directory)")),
            (lambda: climbed.write({"src/page.txt": edited}), ("5 (Spell fifteen)", "src/page.txt (contents)")),
            (lambda: climbed.write({"src/picture.bin": b"\0other"}), ("3 (Tidy up)", "src/picture.bin")),
            (lambda: climbed.write({"answer.json": "{}\n"}), ("1 (Spell three)", "answer.json (contents)")),
        ]
        start = climbed.git("rev-parse", "main")
        for change, words in changes:
            climbed.git("reset", "--quiet", "--hard", start)
            change()
            climbed.commit("meanwhile")
            stored = objects(climbed)
            said = refused(climbed, 1, "--onto", "main", "--branch", "better", "--patch", "../home.patch")
            assert not [word for word in ("iteration", *words) if word not in said], said
            assert "~" not in said and ("answer.json" in words[1] or "answer.json" not in said)
            assert objects(climbed) == stored and not (climbed.folder / "../home.patch").exists()
        assert refused(climbed, 1, "--onto", "main") == said, "a preview says the same"

    def test_after_a_squashed_merge_only_what_is_new_goes_home(self, climbed: Project) -> None:
        promote(climbed, "--branch", "better")
        climbed.git("merge", "--quiet", "--squash", "better")
        climbed.write({"other.txt": "moved on\n"})
        climbed.commit("squashed")
        assert "the base has them all" in promote(climbed, "--onto", "main", "--branch", "again").stderr
        assert "again" not in all_refs(climbed)
        assert climbed.climb("iterate", "-n", "1")[-1]["outcome"] == "kept"
        assert numbers(climbed, "--onto", "main") == [[6]]
        for more in ((), ("--branch", "again")):
            rest = "HEAD already has the kept changes up to iteration 5; the rest: goalseek promote --onto HEAD\n"
            assert promote(climbed, *more).stderr == rest
        assert "again" not in all_refs(climbed)
        assert numbers(climbed, "--onto", "main~1") == [[1], [3], [5], [6]]
        promote(climbed, "--branch", "rest", "--onto", "HEAD")
        climbed.git("merge", "--quiet", "rest")
        assert "nothing to promote: HEAD already has the kept changes up to iteration 6" in promote(climbed).stderr

    def test_a_squash_of_changes_that_the_base_has_is_empty(self, make_project: Projects) -> None:
        def page(*good: int, more: str = "") -> str:
            return "".join(f"line {number} {'good' if number in good else 'bad'}\n" for number in range(20)) + more

        judge = 'echo "{\\"score\\": $(grep -c good page.txt)}" > "$GOALSEEK_RUN_DIR/metrics.json"\n'
        project = make_project(
            files={"page.txt": page(0), "hidden/judge.sh": judge},
            manifest={"scope": {"writable": ["page.txt"], "hidden": ["hidden/**"]}},
        )
        project.set_moves({"files": {"page.txt": page(0, 3)}}, {"files": {"page.txt": page(0, 13, 17)}})
        first = project.climb("iterate", "-n", "2")[1]["commit_hash"]
        assert (numbers(project), numbers(project, "--squash")) == ([[1], [2]], [[1, 2]])
        project.write({"page.txt": page(0, 13, 17, more="the user's\n").replace("line 8 bad", "line eight")})
        project.commit("the end of it by hand, and more")
        assert (numbers(project, "--onto", "main"), numbers(project, "--onto", "main", "--squash")) == ([[1], [2]], [])
        project.git("reset", "--quiet", "--hard", first)
        assert numbers(project, "--onto", "main") == [[2]]
        (whole,) = project.ask("promote", "--onto", "main", "--squash")["commits"]
        assert whole["iterations"] == [2] and whole["message"].startswith("move 2\n\n")

    def test_a_shallow_clone_that_fetched_the_records_promotes(self, climbed: Project, tmp_path: Path) -> None:
        climbed.write({"src/page.txt": PAGE.replace("line 9 of the page", "line nine")})
        climbed.commit("meanwhile")
        place = tmp_path / "shallow"
        climbed.git("clone", "--quiet", "--depth=1", f"file://{climbed.top}", str(place))
        clone = Project(place, place)
        clone.git("fetch", "--quiet", "origin", "refs/goalseek/*:refs/goalseek/*")
        clone.manifest.write_text(climbed.manifest.read_text())
        clone.check("audit", "--rebuild")
        promote(clone, "--onto", "main", "--branch", "better", "--patch", str(tmp_path / "home.patch"))
        clone.git("switch", "--quiet", "--create", "mailed")
        clone.git("am", "--quiet", "--keep", "--keep-cr", str(tmp_path / "home.patch"))
        assert tree(clone, "mailed") == tree(clone, "better")

    def test_a_sha256_repository_and_a_project_in_a_subfolder(self, make_project: Projects) -> None:
        project = make_project(below="packages/one", object_format="sha256")
        project.set_moves(answer(2), answer(3))
        records = project.climb("iterate", "-n", "2")
        (project.top / "elsewhere.txt").write_text("moved on\n")
        project.commit("meanwhile")
        promote(project, "--onto", "main", "--branch", "better")
        assert project.git("diff", "--name-only", "main", "better") == "packages/one/answer.json"
        assert project.git("diff", records[-1]["commit_hash"], "better", "--", "packages/one") == ""


class TestNames:
    def test_a_branch_name_that_is_taken_or_invalid_is_refused(self, climbed: Project, tmp_path: Path) -> None:
        linked = tmp_path / "linked"
        climbed.git("worktree", "add", "--quiet", "-b", "elsewhere", str(linked))
        climbed.git("branch", "side")
        climbed.git("update-ref", "-d", "refs/heads/goalseek/demo")
        climbed.git("symbolic-ref", "refs/heads/link", "refs/heads/target")
        for name in (
            *("side", "main", "side/below", "", "@{-1}", "HEAD", "elsewhere"),
            *("goalseek", "goalseek/demo", "goalseek/other"),
        ):
            assert repr(name) in refused(climbed, 2, "--branch", name)
        assert "is for goalseek's own branches" in refused(climbed, 2, "--branch", "goalseek")
        climbed.git("branch", "goalseek")
        for name in ("goalseek", "goalseek/below"):
            assert f"the branch {name!r} exists, or a branch is in its way" in refused(climbed, 2, "--branch", name)
        climbed.git("branch", "-d", "goalseek")
        for name in ("two words", "-x", "a..b", "ends.lock"):
            assert "name for a branch" in refused(climbed, 2, f"--branch={name}")
        refused(climbed, 2, "--branch", "link")
        status = climbed.git("status", "--porcelain", folder=linked)
        promote(climbed, "--branch", "better")
        assert climbed.git("status", "--porcelain", folder=linked) == status == ""
        climbed.git("switch", "--quiet", "--orphan", "unborn", folder=linked)
        assert "checked out" in refused(climbed, 2, "--branch", "unborn")

    def test_odd_names_links_modes_and_line_ends_go_home(self, make_project: Projects, tmp_path: Path) -> None:
        agent = tmp_path / "agent.sh"
        agent.write_text(ODD_AGENT)
        odd = make_project(
            files={**FILES, **ODD, "src/target.txt": "target\n"},
            manifest={
                "scope": {"writable": ["answer.json", "src/**"], "hidden": ["hidden/**"]},
                "provider": {"name": "command", "command": ["sh", str(agent)]},
            },
        )
        (odd.top / "src/was-link").symlink_to("target.txt")
        odd.commit("a link")
        assert odd.climb()[1]["outcome"] == "kept", odd.iterations()[1]["why"]
        best = tree(odd, odd.iterations()[1]["commit_hash"])
        assert "120000" in best and "100755" in best
        odd.check("audit")
        patch = tmp_path / "home.patch"
        promote(odd, "--branch", "better", "--patch", str(patch))
        odd.git("switch", "--quiet", "--create", "mailed", "main")
        odd.git("am", "--quiet", "--keep-cr", str(patch))
        assert tree(odd, "better") == tree(odd, "mailed") == best

    @pytest.mark.slow
    def test_titles_reach_git_and_the_mail_as_they_are(self, project: Project) -> None:
        titles = [
            *("# not a comment", "Zürich: größer, 改善", "x" * 180, "--force", "[ui] faster", "Re: again", "---"),
            "diff --git a/x b/x",
        ]
        project.set_moves(*({"title": title, "files": {"answer.json": answer(n)}} for n, title in enumerate(titles, 2)))
        project.climb("iterate", "-n", str(len(titles)))
        project.git("config", "i18n.commitEncoding", "ISO-8859-1")
        project.git("config", "commit.cleanup", "strip")
        promote(project, "--branch", "better")
        project.git("config", "--unset", "i18n.commitEncoding")
        assert subjects(project, "main..better") == titles
        patch = project.top.parent / "home.patch"
        promote(project, "--patch", str(patch))
        project.git("switch", "--quiet", "--create", "mailed", "main")
        project.git("-c", "commit.cleanup=verbatim", "am", "--quiet", "--keep", str(patch))
        assert subjects(project, "main..mailed") == titles

    def test_a_repository_in_a_folder_with_an_odd_name(self, climbed: Project, tmp_path: Path) -> None:
        project, patch = climbed.copy(tmp_path / "od\"d: dir 'ü"), tmp_path / "a b'.patch"
        ended = promote(project, "--branch", "better", "--patch", str(patch))
        assert tree(project, "better") == best_tree(project)
        assert f"to apply it: git am --keep --keep-cr {shlex.quote(str(patch))}" in ended.stdout
        ended = project.copy(tmp_path / "two\nlines").run("promote")
        assert ended.exit_code == 3 and "has a line break" in ended.stderr


ODD = {
    "src/two words.txt": "1\n",
    'src/n\udcff\n\t"ame.txt': "1\n",
    "src/ünï.txt": "1\n",
    "src/-rf": "1\n",
    "src/to-remove.txt": "1\n",
    "src/windows.txt": "one\r\ntwo\r\n",
}
ODD_AGENT = r"""
cd src
printf '{"score": 2,\n"size": 10\n}\n' > ../answer.json
python3 - <<'END'
import os
for name in os.listdir(b"."):
    if os.path.isfile(name) and not os.path.islink(name):
        with open(name, "ab") as file:
            file.write(b"2\n")
END
rm to-remove.txt; ln -s windows.txt link; rm -f was-link; printf 'a file now\n' > was-link
mkdir -p deep/er; printf '\000\377' > deep/er/x.bin; chmod 755 -- -rf; echo "Odd things"
"""


class TestTheUsersOwnGit:
    def test_hooks_run_and_may_refuse_but_not_change_the_tree(self, climbed: Project, tmp_path: Path) -> None:
        seen = tmp_path / "seen"
        hook(climbed, "pre-commit", f'pwd >> "{seen}"; git diff --cached --name-only >> "{seen}"; test -f src/page.txt')
        hook(climbed, "commit-msg", 'echo "Signed-off-by: A Hook <hook@example.com>" >> "$1"')
        hook(climbed, "post-commit", f'echo post >> "{seen}"; git switch --quiet --force-create scratch')
        before = climbed.users()
        promote(climbed, "--branch", "better")
        lines = seen.read_text().splitlines()
        assert lines.count("post") == 3
        assert lines[1:3] == ["answer.json", "src/page.txt"]
        assert not Path(lines[0]).is_relative_to(climbed.top) and not Path(lines[0]).exists()
        for commit in climbed.git("rev-list", "main..better").splitlines():
            assert "Signed-off-by: A Hook" in climbed.git("log", "-1", "--format=%B", commit)
        assert tree(climbed, "better") == best_tree(climbed), "a hook that switches to a branch of its own is followed"
        assert subjects(climbed, "main..better") == SUBJECTS
        assert {**climbed.users(), "refs": ""} == {**before, "refs": ""}
        assert climbed.git("worktree", "list").count("\n") == 0
        assert not list((climbed.top / ".git/goalseek/demo").glob("promote-*"))
        (climbed.top / ".git/hooks/post-commit").unlink()
        hook(climbed, "pre-commit", 'echo "no commits on a Saturday" >&2; exit 1')
        said = refused(climbed, 3, "--branch", "other")
        assert "no commits on a Saturday" in said and "iteration 1" in said and "--no-verify home.patch" in said
        promote(climbed, "--patch", "-")
        hook(climbed, "pre-commit", "echo formatted >> answer.json; git add answer.json")
        said = refused(climbed, 1, "--branch", "other")
        assert "answer.json" in said and "the result was not measured" in said
        climbed.git("config", "core.hooksPath", "src/hooks")
        climbed.write({"src/hooks/commit-msg": '#!/bin/sh\necho "by the checkout" >> "$1"\n'})
        (climbed.top / "src/hooks/commit-msg").chmod(0o755)
        promote(climbed, "--branch", "other")
        assert "by the checkout" in climbed.git("log", "-1", "--format=%B", "other"), "not the candidate's hooks"

    def test_no_filter_runs_and_hooks_see_what_was_measured(self, climbed: Project, tmp_path: Path) -> None:
        seen = tmp_path / "seen"
        hook(climbed, "pre-commit", f'git add --update; cat src/page.txt > "{seen}"')
        for name, value in (("required", "true"), ("smudge", "false"), ("clean", "cat")):
            climbed.git("config", f"filter.locked.{name}", value)
        climbed.git("config", "core.autocrlf", "true")
        (climbed.top / ".git/info/attributes").write_text("*.txt filter=locked text eol=crlf ident\n")
        promote(climbed, "--branch", "better")
        best = climbed.iterations()[5]["commit_hash"]
        assert tree(climbed, "better") == tree(climbed, best)
        assert seen.read_text() == climbed.git("cat-file", "blob", f"{best}:src/page.txt") + "\n"

    def test_git_settings_shape_nothing(
        self, climbed: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, value in (
            *(("commit.template", "/no/such"), ("core.commentChar", "S"), ("commit.verbose", "true")),
            *(("core.fileMode", "false"), ("core.symlinks", "false"), ("core.splitIndex", "true")),
            *(("index.version", "4"), ("core.editor", "false"), ("format.signOff", "true")),
            *(("format.coverLetter", "true"), ("format.attach", "true"), ("diff.noprefix", "true")),
            *(("diff.external", "false"), ("index.sparse", "true")),
        ):
            climbed.git("config", name, value)
        climbed.git("sparse-checkout", "set", "--cone", "hidden")
        best, patch = best_tree(climbed), tmp_path / "home.patch"
        with monkeypatch.context() as environment:  # as when a hook or an alias of git runs it
            for name in ("DIR", "WORK_TREE", "INDEX_FILE", "OBJECT_DIRECTORY", "COMMON_DIR", "PREFIX"):
                environment.setenv(f"GIT_{name}", str(tmp_path / "elsewhere"))
            promote(climbed, "--branch", "better", "--patch", str(patch))
        assert not (tmp_path / "elsewhere").exists()
        assert tree(climbed, "better") == best
        assert subjects(climbed, "main..better") == SUBJECTS
        climbed.git("clone", "--quiet", ".", str(tmp_path / "clone"))
        climbed.git("am", "--quiet", "--keep", "--keep-cr", str(patch), folder=tmp_path / "clone")
        assert climbed.git("ls-tree", "-r", "HEAD", folder=tmp_path / "clone") == best

    def test_a_worktree_s_identity_holds(
        self, climbed: Project, monkeypatch: pytest.MonkeyPatch, isolated: Path
    ) -> None:
        without_identity(monkeypatch)
        monkeypatch.delenv("GIT_CONFIG_GLOBAL")
        (isolated / "work").write_text("[user]\n\tname = At Work\n\temail = me@work.example\n")
        (isolated / ".gitconfig").write_text(f'[includeIf "gitdir:{climbed.top}/"]\n\tpath = work\n')
        promote(climbed, "--branch", "at-work")
        assert climbed.git("log", "-1", "--format=%an <%ae>", "at-work") == "At Work <me@work.example>"
        climbed.git("config", "extensions.worktreeConfig", "true")
        for name, value in (("user.name", "Here Alone"), ("user.email", "here@example.com"), ("core.worktree", "..")):
            climbed.git("config", "--worktree", name, value)
        climbed.git("config", "user.name", "Elsewhere")
        before = climbed.users()
        promote(climbed, "--branch", "better")
        assert climbed.git("log", "-1", "--format=%an <%ae>", "better") == "Here Alone <here@example.com>"
        assert {**climbed.users(), "refs": ""} == {**before, "refs": ""}

    def test_the_way_out_fits_the_cause(self, climbed: Project, monkeypatch: pytest.MonkeyPatch) -> None:
        climbed.git("config", "commit.gpgSign", "true")
        climbed.git("config", "gpg.program", "/no/such/program")
        said = refused(climbed, 3, "--branch", "better")
        assert "/no/such/program" in said and "commit.gpgSign=false am" in said and "user.name" not in said
        without_identity(monkeypatch)
        climbed.git("config", "user.useConfigOnly", "true")
        for target in (["--branch", "better"], ["--patch", "-"]):
            said = refused(climbed, 3, *target)
            assert 'git config user.name "Your Name" && git config user.email you@example.com' in said
            assert "gpgSign" not in said

    @pytest.mark.slow
    def test_a_kill_in_a_hook_leaves_no_branch(self, climbed: Project, tmp_path: Path, scratch: Path) -> None:
        there, patch = tmp_path / "there", tmp_path / "home.patch"
        hook(climbed, "commit-msg", f'touch "{there}"; while test -e "{there}"; do sleep 0.02; done')
        before, refs = climbed.users(), all_refs(climbed)
        process = climbed.start_until(there, "promote", "--branch", "better")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
        there.unlink()
        assert (process.returncode, all_refs(climbed), list(scratch.iterdir())) == (130, refs, [])
        climbed.kill_when(there, "promote", "--branch", "better", "--patch", str(patch))
        assert (all_refs(climbed), patch.exists()) == (refs, False)
        assert {**climbed.users(), "refs": ""} == {**before, "refs": ""}
        assert list(scratch.iterdir())
        there.unlink()
        (climbed.top / ".git/hooks/commit-msg").unlink()
        promote(climbed)
        assert not list(scratch.iterdir()), "the next one clears up"
        assert not list((climbed.top / ".git/goalseek/demo").glob("promote-*"))
        promote(climbed, "--branch", "better")

    def test_a_merge_or_a_rebase_that_is_half_done_stays_so(self, climbed: Project) -> None:
        climbed.git("switch", "--quiet", "--create", "side")
        climbed.write({"other.txt": "one\n"})
        climbed.commit("one")
        climbed.git("switch", "--quiet", "main")
        climbed.write({"other.txt": "two\n"})
        climbed.commit("two")
        for number, command in enumerate((("merge", "side"), ("rebase", "side"))):
            assert subprocess.run(["git", *command], cwd=climbed.top, capture_output=True, timeout=120).returncode == 1
            status, before = climbed.git("status"), climbed.users()
            promote(climbed, "--onto", "main", "--branch", f"better{number}")
            assert climbed.run("promote", "--branch", "main").exit_code == 2
            assert climbed.git("status") == status
            assert {**climbed.users(), "refs": ""} == {**before, "refs": ""}
            climbed.git(command[0], "--abort")
