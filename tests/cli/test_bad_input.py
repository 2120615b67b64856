"""A clear error (what, where, what would be right), the contract's exit code, and nothing written."""

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import jmespath
import pytest
from project import FILES, Ended, Project, Projects, answer

import goalseek
from goalseek.cli import main
from goalseek.cli.main import run as command_line
from goalseek.cli.registry import REMOVED, removed_words
from goalseek.doctor import project_checks
from goalseek.errors import BUG, UNFIT, USAGE, GoalseekError
from goalseek.git.location import locate
from goalseek.git.repository import Repository
from goalseek.loop import invocation
from goalseek.manifest.rules import query_fault
from goalseek.manifest.tables import ProviderTable
from goalseek.providers.scripted import ScriptedProvider


def refused(project: Project, code: int, *said: str, arguments: tuple[str, ...] = ("iterate",)) -> Ended:
    """Runs goalseek, which must refuse with this code and these words, and write nothing."""
    project.set_moves(answer(2))
    before = project.users()
    ended = project.run(*arguments)
    assert ended.exit_code == code, ended
    assert [word for word in said if word not in ended.stderr] == [], ended.stderr
    assert "Traceback" not in ended.stderr
    assert project.traces() == []
    assert project.users() == before
    return ended


def test_before_the_first_record_every_command_says_what_to_do_and_leaves_no_trace(project: Project) -> None:
    for command, code, said in (
        ("status", 0, "pending"),
        ("log", 0, "there are no records yet"),
        ("direct --list", 0, ""),
        ("stop", 0, "nothing is running"),
        ("prune", 0, "nothing to remove\n"),
        ("show", USAGE, "there is no record of last"),
        ("promote --branch better", USAGE, "climb first: goalseek iterate"),
        ("exec -- true", USAGE, "goalseek baseline"),
        ("audit", UNFIT, "git fetch origin"),
    ):
        ended = project.run(*command.split())
        assert ended.exit_code == code and said in ended.stdout + ended.stderr, ended
        assert project.traces() == [], command
    seen = project.ask("status")
    assert (seen["status"], seen["best"], seen["baseline"], seen["last"]) == ("pending", None, None, None)
    assert "goalseek iterate" in seen["next"]


def test_no_repository_no_commit_or_a_bare_repository(tmp_path: Path, project: Project) -> None:
    fresh, bare = Project(tmp_path / "fresh", tmp_path / "fresh"), tmp_path / "bare.git"
    fresh.set_manifest({})
    for command in ("iterate", "status"):
        ended = fresh.run(command)
        assert ended.exit_code == UNFIT and "is not in a git repository" in ended.stderr and "git init" in ended.stderr
    assert [path.name for path in fresh.folder.iterdir()] == ["goalseek.toml"]
    fresh.git("init", "--quiet")
    refused(fresh, UNFIT, "has no commit yet", "git commit")
    project.git("clone", "--quiet", "--bare", ".", str(bare))
    inside = Project(bare, bare)
    inside.set_manifest({})
    assert "bare repository" in inside.fail(UNFIT, "iterate")
    assert not (bare / "goalseek").exists() and not (bare / ".goalseek").exists()


def test_a_partial_clone_whose_blobs_are_missing(project: Project, tmp_path: Path) -> None:
    project.git("config", "uploadpack.allowFilter", "true")
    top = tmp_path / "partial"
    project.git("clone", "--quiet", "--filter=blob:none", "--no-checkout", f"file://{project.top}", str(top))
    partial = Project(top, top)
    partial.set_manifest({})
    refused(partial, UNFIT, "partial clone", "objects of HEAD are not here", "git fetch")


def test_a_branch_named_goalseek_in_the_way(project: Project) -> None:
    project.git("branch", "goalseek")
    ended = project.run("iterate")
    assert ended.exit_code == UNFIT and "'goalseek' is in the way" in ended.stderr and "git branch -m" in ended.stderr
    assert not (project.folder / ".goalseek").exists()
    project.git("branch", "ours/demo")
    for prefix, problem in (
        ("ours", "the branch ours/demo exists already, and goalseek did not make it"),
        ("main", "'main' is in the way"),
        ("ours/demo/more", "'ours/demo' is in the way"),
    ):
        project.set_manifest({"log": {"branch_prefix": prefix}})
        ended = project.run("iterate")
        assert ended.exit_code in (UNFIT, 2) and problem in ended.stderr, (prefix, ended)
        assert not (project.folder / ".goalseek").exists()


def test_a_climb_shows_itself_on_a_branch_of_another_prefix(project: Project) -> None:
    project.git("branch", "goalseek")
    project.git("branch", "mine/demo")
    before = project.git("rev-parse", "mine/demo")
    project.set_manifest({"log": {"branch_prefix": "team/climbs"}})
    project.set_moves(answer(2), answer(0.5), answer(3))
    project.climb("iterate", "-n", "2")
    branches = "--format=%(refname:short)"
    assert project.git("branch", branches).splitlines() == ["goalseek", "main", "mine/demo", "team/climbs/demo"]
    assert project.git("rev-parse", "team/climbs/demo") == project.git("rev-parse", "refs/goalseek/demo/tip")
    project.check("audit")
    project.set_manifest({"log": {"branch_prefix": "other"}})
    project.climb("iterate", "-n", "1")
    assert project.git("rev-parse", "other/demo") == project.git("rev-parse", "refs/goalseek/demo/tip")
    project.set_manifest({"log": {"branch_prefix": "mine"}})
    assert "goalseek did not make it" in project.fail(UNFIT, "iterate")
    assert project.git("rev-parse", "mine/demo") == before


def test_no_manifest_and_no_such_manifest(project: Project) -> None:
    project.manifest.unlink()
    refused(project, USAGE, "no goalseek.toml in", "goalseek init")
    refused(project, USAGE, "no goalseek.speed.toml in", arguments=("-m", "speed", "iterate"))
    refused(project, USAGE, "there is no manifest", arguments=("-m", "./gone.toml", "iterate"))
    refused(project, USAGE, "there is no such folder", arguments=("-C", "gone", "iterate"))


def test_a_manifest_that_does_not_fit_the_repository(project: Project) -> None:
    for scope, said in (
        ({"writable": ["gone.txt"], "hidden": ["hidden/**"]}, "'gone.txt' matches no committed file"),
        ({"writable": ["answer.json"], "hidden": ["hid/**"]}, "'hid/**' matches no committed file"),
        ({"writable": ["answer.json"], "share": [".venv"]}, "scope.share: there is no"),
    ):
        project.set_manifest({"scope": scope})
        refused(project, USAGE, said)
    for change, said in (
        ({"project": {"name": "demo", "program": "gone.md"}}, "project.program: there is no"),
        ({"log": {"home": "hidden"}}, "is committed"),
    ):
        project.set_manifest(change)
        refused(project, USAGE, said)


INVALID: list[tuple[dict[str, Any], str]] = [
    ({"scope": {"writable": ["a*", "x"], "hidden": ["x"]}}, "'x' is in scope.writable too"),
    ({"scope": {"writable": ["answer.json"], "share": ["/srv/data"]}}, ":13: scope.share: '/srv/data' is absolute"),
    ({"scope": {"writable": ["answer.json"], "share": ["../data"]}}, """scope.share: '../data' has ".." in it"""),
    ({"metric": {"direction": "maximize", "query": "[bad"}}, "is not JMESPath"),
    ({"metric": {"direction": "maximize", "regex": "(bad"}}, "does not compile"),
    ({"metric": {"direction": "up", "query": "score"}}, "metric.direction"),
    ({"metric": {"direction": "maximize"}}, "say how to read it"),
    ({"verify": [{"run": "true"}, {"run": "true"}]}, "'true' is taken"),
    ({"verify": []}, "verify"),
    ({"version": 2}, "version"),
    ({"project": {"name": "Big Name"}}, "a-z, 0-9 and -"),
    ({"guard": [{"query": "size"}]}, "has no bound"),
    ({"metric": {"direction": "maximize", "query": "score", "valid": ["a", 1]}}, "two numbers"),
    ({"log": {"home": "../elsewhere"}}, "log.home"),
    *(({"log": {"branch_prefix": name}}, "cannot begin the name") for name in ("-x", "a..b", "x.lock", "a//b")),
]


def test_a_manifest_that_cannot_be_right(project: Project) -> None:
    for change, said in INVALID:
        project.set_manifest(change)
        with pytest.raises(GoalseekError) as raised:
            goalseek.load(project.manifest)
        assert said in raised.value.message and raised.value.exit_code == USAGE, change


def test_a_provider_that_cannot_start(project: Project, tmp_path: Path) -> None:
    (script := tmp_path / "agent.py").write_text("print('an idea')\n")
    (unmarked := tmp_path / "unmarked.py").write_text(script.read_text())

    def in_folder(name: str) -> dict[str, Any]:
        return {"name": "command", "command": [str(tmp_path / name)]}

    for name, line in (
        ("gone.sh", "#!/usr/bin/bsh -e"),
        ("crlf.sh", "#!/bin/sh\r"),
        ("env.py", "#!/usr/bin/env no-such"),
    ):
        (tmp_path / name).write_text(f"{line}\n")
    for path in (unmarked, *(tmp_path / name for name in ("gone.sh", "crlf.sh", "env.py"))):
        path.chmod(0o755)
    for provider, code, said in (
        ({"name": "oracle"}, USAGE, "there is no provider 'oracle'"),
        ({"name": "replay"}, USAGE, "provider.record: is required"),
        ({"name": "command"}, USAGE, "is required by the provider"),
        ({"name": "command", "command": ["no-such-agent"]}, UNFIT, "there is no program 'no-such-agent'"),
        ({"name": "command", "command": [str(script)]}, UNFIT, "agent.py is not executable\n  chmod +x "),
        ({"name": "command", "command": [str(unmarked)]}, UNFIT, "unmarked.py names no interpreter"),
        (in_folder("gone.sh"), UNFIT, "gone.sh names /usr/bin/bsh, which is not there\n  begin "),
        (in_folder("gone.sh"), UNFIT, "gone.sh with a line such as #!/bin/sh\n"),
        (in_folder("crlf.sh"), UNFIT, "crlf.sh ends with a carriage return"),
        (in_folder("env.py"), UNFIT, "env.py names no-such, which is not there"),
        ({"name": "replay", "record": "gone"}, UNFIT, "has no recordings"),
        ({"name": "scripted", "script": "gone.toml"}, UNFIT, "gone.toml cannot be read: no such file"),
    ):
        project.set_manifest({"provider": provider})
        refused(project, code, said)
    project.manifest.write_text(project.manifest.read_text().split("[provider]")[0])
    refused(project, USAGE, "no provider is named")


def test_a_mistyped_argument_leaves_the_state_of_the_run_as_it_was(played: Projects) -> None:
    project = played(answer(2))
    state = project.logs / "state.json"
    before = state.read_bytes()
    for arguments in (("iterate", "--provider", "nope"), ("baseline", "--from", "nope")):
        assert project.run(*arguments).exit_code == 2
        assert state.read_bytes() == before
    assert project.run("status").stdout.startswith("demo: finished as asked")


def test_an_unknown_command_or_option(project: Project) -> None:
    refused(project, USAGE, "there is no command 'itrate'", "did you mean 'iterate'", arguments=("itrate",))
    refused(project, USAGE, "--fast", arguments=("iterate", "--fast"))
    refused(project, USAGE, "jmespath", arguments=("--query", "[bad", "iterate"))


def test_what_was_removed_is_named_in_one_line_with_what_to_do_instead(capsys: pytest.CaptureFixture[str]) -> None:
    for removed, instead in REMOVED.items():
        assert main.run(removed.split()) == USAGE
        assert capsys.readouterr().err == f"goalseek: goalseek {removed} was removed: {instead}\n"
    shortened = {
        "noise --job=4": "noise --jobs",
        "init --reg x": "init --regex",
        "report --form svg": "report --format svg",
    }
    assert {typed: removed_words(typed.split()) for typed in shortened} == shortened
    assert removed_words(["init", "--prov", "claude"]) == removed_words(["report", "-o", "r.html"]) == ""


def test_no_text_tells_to_do_what_was_removed() -> None:
    package = Path(goalseek.__file__).parent
    files = [path for kind in ("py", "md", "html", "jinja", "toml") for path in package.rglob(f"*.{kind}")]
    named = [
        (path.name, removed) for path in files for removed in REMOVED if f"goalseek {removed} " in path.read_text()
    ]
    assert not named


def test_what_is_nested_too_deeply_is_a_fault_of_that_file(played: Projects) -> None:
    project = played(answer(2))
    deep = "[" * 100_000
    lines = project.results.read_bytes()
    project.results.write_bytes(lines + deep.encode() + b"\n")
    for arguments in (("status",), ("log",), ("iterate",), ("report", "-o", "report.html")):
        assert project.run(*arguments).exit_code in (0, 3)
    assert "results.jsonl" in project.run("iterate").stderr
    audit = project.run("audit")
    assert audit.exit_code == 1 and "Traceback" not in audit.stderr
    project.results.write_bytes(lines)
    project.manifest.write_text(project.manifest.read_text() + f"x = {deep}")
    ended = project.run("iterate")
    assert ended.exit_code == USAGE and f"{project.manifest}: lists or tables are nested too deeply" in ended.stderr


def test_a_word_that_is_empty_or_says_nothing_is_not_ignored(project: Project) -> None:
    project.set_moves(answer(2))
    for words, said in (
        (("iterate", "--forever", "--for", ""), "'' is not a duration"),
        (("iterate", "--forever", "--until", ""), "'': write, for example, 'score>=0.99'"),
        (("iterate", "--until", "scor>=3"), "no number is called 'scor'; did you mean 'score'?"),
        (("iterate", "--for", "8"), "--for 8 has no unit: 8s, 8m or 8h?"),
        (("iterate", "--jobs", "0"), "--jobs 0: a number from 1 to 64"),
        (("iterate", "--jobs", "65"), "--jobs 65: a number from 1 to 64"),
        (("report", ""), "there is no results.jsonl"),
        (("export", "--to", "csv", ""), "the others take a path"),
    ):
        ended = project.run(*words)
        assert ended.exit_code == USAGE and said in ended.stderr, ended
    assert project.traces() == []
    project.climb()
    assert "--files needs a folder" in project.fail(USAGE, "show", "best", "--files", "")


def test_a_baseline_without_a_number(project: Project) -> None:
    for content, said in (
        (answer("NaN"), "score is nan"),
        (answer('"1"'), "is a text, not a number"),
        (answer("null"), "metrics.json has no 'score'; it has: score, size"),
        ("not json", "is not JSON"),
        (answer(1, more='"silent": 1,\n'), "wrote no metrics.json"),
        (answer(1, more='"fail": 1,\n'), "| told to fail"),
    ):
        project.write({"answer.json": content})
        project.commit()
        refused(project, 1, "the baseline has no number", said, "commit, and run the same command again")


def test_a_baseline_whose_verifier_cannot_start_or_that_is_outside_its_valid_range(project: Project) -> None:
    for command in ({"run": ["./gone"]}, {"run": "true", "cwd": "gone"}):
        project.set_manifest({"verify": [command]})
        refused(project, 1, "the baseline has no number", "gone")
    project.set_manifest({"metric": {"direction": "maximize", "query": "score", "valid": [5.0, 6.0]}})
    refused(project, 1, "outside its valid range, 5 to 6")


def test_submodules_and_files_that_a_filter_makes_are_told_with_the_remedy(project: Project) -> None:
    project.write(
        {
            ".gitattributes": "# secret\n*.key filter=git-crypt diff=git-crypt\n*.txt -filter text\n"
            "*.bin filter=lfs diff=lfs merge=lfs -text\n",
            "data/.gitattributes": "*.csv text working-tree-encoding=UTF-16\n",
            "data/a.csv": "1\n".encode("utf-16"),
            **dict.fromkeys(("one.key", "data/two.key", "b.csv", "big.bin"), "1\n"),
        }
    )
    project.git("add", "-A")
    project.git("update-index", "--add", "--cacheinfo", f"160000,{project.git('rev-parse', 'HEAD')},module")
    project.git("commit", "--quiet", "-m", "more")
    (project.folder / "module/inside").mkdir(parents=True)
    project.set_moves(answer(2))
    ended = project.run("iterate")
    assert ended.exit_code == 0, ended.stderr
    assert "submodules are not in the trees: module" in ended.stderr and "scope.share" in ended.stderr
    assert "Git LFS files are pointers in the trees: big.bin" in ended.stderr
    told = "files are in the trees as git stores them, before"
    assert f"{told} filter=git-crypt: data/two.key, one.key; keep the files that a command needs" in ended.stderr
    assert f"{told} working-tree-encoding=UTF-16: data/a.csv; keep" in ended.stderr
    assert ended.stderr.count(told) == 2
    assert f"{told} filter=git-crypt: data/two.key, one.key" in project.run("doctor", "--quick").stdout
    (project.folder / "link").symlink_to("module")
    project.commit("a link to the submodule")
    for share in ("module", "module/inside", "link"):
        project.set_manifest({"scope": {"writable": ["answer.json"], "share": [share]}})
        assert "submodules are" not in project.run("doctor", "--quick").stdout, share


def test_what_a_checkout_has_otherwise_is_asked_of_git(project: Project) -> None:
    """Macros, quoted patterns, the repository's own attributes; as HEAD has them, whatever the checkout has."""
    project.write(
        {
            ".gitattributes": '[attr]large filter=lfs -text\n*.bin large\n"a b.*" eol=crlf\n*.dat -text eol=crlf\n*.c ident\n',
            "sub/.gitattributes": "*.bin !filter\n",
            **dict.fromkeys(("x.bin", "sub/x.bin", "a b.txt", "x.dat", "x.c", "mine.key", "sub/x.c"), "1\n"),
        }
    )
    project.commit()
    (project.top / ".git/info").mkdir(exist_ok=True)
    (project.top / ".git/info/attributes").write_text("*.key filter=git-crypt\n")
    (project.top / ".gitattributes").write_text("* filter=checkout\n")
    with Repository(locate(project.top), "demo") as repository:
        entries = repository.objects.files(repository.tree_of(repository.head()))
        found = project_checks.converted_files(repository, entries)
    assert found == {
        "eol=crlf": ["a b.txt"],
        "filter=git-crypt": ["mine.key"],
        "filter=lfs": ["x.bin"],
        "ident": ["sub/x.c", "x.c"],
    }


def test_an_editable_install_in_a_shared_environment_is_refused(make_project: Projects) -> None:
    project = make_project()
    site = project.folder / ".venv" / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    project.write({".gitignore": ".venv\n"})
    project.set_manifest({"scope": {"writable": ["answer.json"], "hidden": ["hidden/**"], "share": [".venv"]}})
    project.commit()
    pth = site / "__editable__.demo.pth"
    pth.write_text(f"{project.top}\n")
    refused(project, UNFIT, "installed editable", "run it with bubblewrap")
    assert "✗ environment" in project.run("doctor", "--quick").stdout
    pth.unlink()
    info = site / "demo-1.dist-info"
    info.mkdir()
    (info / "direct_url.json").write_text(json.dumps({"url": f"file://{project.top}", "dir_info": {"editable": True}}))
    refused(project, UNFIT, "installed editable")


def test_a_command_that_needs_what_it_does_not_see_is_told_so(project: Project) -> None:
    for sees, judge, remedy in (
        ("candidate", "true", "shows it no hidden file, and it names hidden/judge.sh"),
        ("hidden", "cat answer.json", "shows it none of the candidate's code"),
    ):
        project.write({"hidden/judge.sh": judge})
        project.set_manifest({"verify": [{"name": "judge", "run": "sh hidden/judge.sh", "sees": sees}]})
        project.commit()
        said = f'judge: sees = "{sees}" {remedy}'
        refused(project, 1, "the baseline has no number", said, "outputs")
        ended = project.run("doctor")
        assert ended.exit_code == 1 and said in ended.stdout
        for trace in project.traces():  # what doctor measured is recorded
            shutil.rmtree(trace)


@pytest.mark.slow
def test_a_script_that_is_not_committed_is_named_where_a_command_needs_it(project: Project) -> None:
    command = {"name": "command", "command": ["sh", "agent.sh"]}
    project.set_manifest({"provider": command, "verify": [{"name": "judge", "run": "sh ./judge.sh"}]})
    project.commit()
    project.write({"judge.sh": FILES["hidden/judge.sh"]})
    refused(project, 1, "judge: judge.sh is in your checkout, but not committed: add it")
    project.write({"agent.sh": "echo '{\"score\": 2}' > answer.json"})
    project.git("add", "judge.sh")
    project.git("commit", "-qm", "judge")
    missing = "agent.sh is in your checkout, but not committed, so not in the agent's tree"
    doctor = project.run("doctor", "--quick")
    assert doctor.exit_code == 1 and f"✗ provider     {missing}" in doctor.stdout
    refused(project, 3, missing, "commit it")
    project.check("baseline")
    project.commit()
    assert project.run("doctor", "--quick").exit_code == 0, "HEAD's is run: no baseline has to adopt it"
    assert project.climb()[-1]["outcome"] == "kept"
    tables = {"scope": {"writable": ["answer.json", "tool.sh"]}, "verify": [{"name": "judge", "run": "sh ./judge.sh"}]}
    project.set_manifest({**tables, "provider": {"name": "command", "command": ["sh", "-c", "sh tool.sh"]}})
    project.write({"tool.sh": "echo '{\"score\": 3}' > answer.json"})
    project.commit()
    stopped = project.run("iterate")
    later = "tool.sh was committed after the baseline, and is not in the agent's tree"
    remedy = "goalseek baseline --from HEAD takes it into the climb; or keep it outside of the repository"
    assert stopped.exit_code == 3 and later in stopped.stderr and remedy in stopped.stderr
    project.check("baseline", "--from", "HEAD")
    assert project.climb()[-1]["outcome"] == "kept"


def test_a_script_of_other_things_than_moves(project: Project) -> None:
    for script in ("move = [1]", "[[move]]\ntitle = 'x'\npatch = 5", "[[move]]\nfiles = {x = 'y'}"):
        (project.top.parent / "other.toml").write_text(script)
        project.set_manifest({"provider": {"name": "scripted", "script": str(project.top.parent / "other.toml")}})
        refused(project, UNFIT, "move 1: needs a title, and files or patch")


def test_a_script_that_is_removed_in_the_middle_of_a_climb(tmp_path: Path) -> None:
    script = tmp_path / "moves.toml"
    script.write_text("[[move]]\ntitle = 'only'\nfiles = { 'x' = 'y' }\n")
    provider = ScriptedProvider(ProviderTable(name="scripted", script=script.name), script.parent)
    assert provider.played_out(0, None) == ""
    script.unlink()
    with pytest.raises(GoalseekError, match="cannot be read: no such file"):
        provider.played_out(0, None)


def test_what_a_verifier_printed_does_not_act_on_the_terminal(project: Project) -> None:
    project.write({"hidden/judge.sh": "printf '\\033[31mred\\033[0m \\033[2J\\n' >&2; exit 3\n"})
    project.commit()
    project.set_moves(answer(2))
    for command in (["iterate"], ["doctor"]):
        ended = project.run(*command)
        assert ended.exit_code == 1 and "| red" in ended.stdout + ended.stderr
        assert "\x1b" not in ended.stdout + ended.stderr


@pytest.mark.parametrize("place", [".git/goalseek", ".goalseek"])
def test_a_read_only_folder_is_a_machine_fault(
    project: Project, place: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project.set_moves(answer(2))
    real = os.mkdir

    def forbidden(path: str, *rest: Any, **more: Any) -> None:
        if str(path).startswith(str(project.folder / place)):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        real(path, *rest, **more)

    monkeypatch.setattr(os, "mkdir", forbidden)
    assert command_line(["-C", str(project.folder), "iterate"]) == UNFIT
    told = capsys.readouterr().err
    assert f"{project.folder / place}" in told and "Read-only file system" in told and "bug" not in told


def test_a_git_status_that_fails_by_a_filter_of_the_users(project: Project) -> None:
    project.write({".gitattributes": "*.txt filter=gone\n"})
    project.commit()
    project.git("config", "filter.gone.clean", "no-such-filter %f")
    project.git("config", "filter.gone.required", "true")
    project.write({"other.txt": FILES["other.txt"].swapcase()})  # of the same size: only the filter can tell
    refused(project, UNFIT, f"git status fails in {project.top}", "no-such-filter: not found", "PATH")


def test_what_was_in_the_home_of_the_logs_stays_there(project: Project) -> None:
    project.set_manifest({"log": {"home": "results"}})
    project.write({"results/.gitignore": "*.png\n", "results/table.txt": "1\n"})
    refused(project, USAGE, "results/.gitignore is committed" if project.commit() else "")
    assert (project.folder / "results/.gitignore").read_text() == "*.png\n"
    assert not (project.folder / "results/demo").exists()


def test_another_climb_stays_ignored_where_a_first_run_is_refused(played: Projects) -> None:
    project = played(answer(2))
    project.manifest = project.folder / "goalseek.second.toml"
    project.set_manifest({"project": {"name": "second"}, "verify": [{"run": "exit 3", "sees": "candidate"}]})
    project.commit()
    ended = project.run("-m", "second", "iterate")
    assert ended.exit_code == 1, ended
    names = sorted(path.name for path in (project.folder / ".goalseek").iterdir())
    assert names == [".gitignore", "demo", "manifest.schema.json"]
    assert project.git("status", "--short") == ""


def test_a_bug_before_the_first_record_leaves_logs_ignored(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(*_: object) -> None:
        raise AssertionError("made to fail")

    monkeypatch.setattr(invocation, "check_fit", failing)
    assert main.run(["-C", str(project.folder), "iterate"]) == BUG, capsys.readouterr().err
    assert (project.logs).is_dir()
    assert project.git("status", "--short") == ""


@pytest.mark.parametrize(
    ("is_link", "said"), [(True, "a link to /gone/disk, which does not exist"), (False, "no folder")]
)
def test_a_home_of_the_logs_that_is_not_there(project: Project, is_link: bool, said: str) -> None:
    home_of_logs = project.folder / ".goalseek"
    home_of_logs.symlink_to("/gone/disk") if is_link else home_of_logs.write_text("mine\n")
    project.set_moves(answer(2))
    for command in (["iterate"], ["iterate", "--detach"], ["direct", "smaller"]):
        ended = project.run(*command)
        assert ended.exit_code == UNFIT and f"{home_of_logs} is {said}" in ended.stderr, ended
        assert "Traceback" not in ended.stderr and not home_of_logs.is_dir()
    assert "Traceback" not in project.run("status").stderr


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("a b", "'a b' is not JMESPath: Unexpected token: b, at character 3, 'b'"),
        ("a.'x", '"a.\'x" is not JMESPath: Unclosed \' delimiter, at character 3, "\'x"'),
        ("nope(@)", "'nope(@)': Unknown function: nope()"),
    ],
)
def test_the_expression_and_the_place_are_told(query: str, told: str) -> None:
    with pytest.raises(jmespath.exceptions.JMESPathError) as raised:
        jmespath.search(query, {"a": 1})
    assert query_fault(query, raised.value) == told


def test_it_is_told_of_the_manifest_and_of_the_command_line(project: Project) -> None:
    project.set_manifest({"metric": {"direction": "maximize", "query": "score size"}})
    said = "'score size' is not JMESPath: Unexpected token: size, at character 7, 'size'"
    assert said in project.run("status").stderr
    project.set_manifest({})
    ended = project.run("--query", "status.", "status")
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert "--query 'status.' is not JMESPath: " in ended.stderr and "at its end" in ended.stderr
