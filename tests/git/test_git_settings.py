"""Settings of git's: those that goalseek keeps hold as for git itself; hostile ones beside them run nothing."""

import contextlib
import os
import shlex
import subprocess
from pathlib import Path

import pytest
from project import Project, answer, home
from skips import levels

from goalseek import process
from goalseek.cli.interview import committed_files
from goalseek.cli.main import run
from goalseek.errors import GoalseekError
from goalseek.git.location import locate
from goalseek.git.packing import pack_when_due
from goalseek.git.repository import Repository
from goalseek.locks import lock_holder, project_lock

only_root = pytest.mark.needs("root")  # to give a repository to another account
OTHER = 1000


def give_away(place: Path) -> None:
    subprocess.run(["chown", "-R", f"{OTHER}:{OTHER}", str(place)], check=True, timeout=120)


@pytest.fixture
def anothers(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A checkout of another account's, and a user with a configuration of their own in HOME."""
    monkeypatch.delenv("GIT_CONFIG_GLOBAL")
    monkeypatch.delenv("GIT_CONFIG_NOSYSTEM")
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", str(home("system")))
    project.set_moves(answer(2), answer(0.5), answer(3))
    give_away(project.top)
    return project


def trusting(top: str) -> str:
    return f"[safe]\n\tdirectory = {top}\n"


WAYS: dict[str, tuple[dict[str, str], dict[str, str]]] = {  # the files in HOME, and the variables
    "in HOME": ({".gitconfig": trusting("{top}")}, {}),
    "in the standard place": ({"config/git/config": trusting("*")}, {}),
    "in an included file": ({"more": trusting("{top}"), ".gitconfig": "[include]\n\tpath = {home}/more\n"}, {}),
    "in the system's": ({"system": trusting("{top}")}, {}),
    "by a variable": (
        {},
        {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "{top}"},
    ),
    "by sudo": ({}, {"SUDO_UID": str(OTHER)}),
}


def trust(top: Path, way: str = "in HOME") -> dict[str, str]:
    """Writes the files of a way; gives its variables."""
    files, variables = WAYS[way]
    for name, text in files.items():
        home(name).parent.mkdir(exist_ok=True)
        home(name).write_text(text.format(top=top, home=home()))
    return {name: value.format(top=top) for name, value in variables.items()}


@only_root
@pytest.mark.parametrize("way", WAYS)
def test_a_repository_that_the_users_git_trusts_is_trusted(
    anothers: Project, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    with pytest.raises(GoalseekError, match="belongs to another user"):
        locate(anothers.folder)
    for name, value in trust(anothers.top, way).items():
        monkeypatch.setenv(name, value)
    assert locate(anothers.folder).top == anothers.top


@only_root
def test_a_repository_cannot_say_that_it_is_trusted_and_the_remedy_is_to_be_typed(anothers: Project) -> None:
    with (anothers.top / ".git/config").open("a") as settings:
        settings.write(trusting("*"))
    ended = anothers.run("status")
    assert ended.exit_code == 3 and "does not trust" in ended.stderr
    remedy = ended.stderr.partition("if you trust its content: ")[2].splitlines()[0]
    subprocess.run(shlex.split(remedy), check=True, timeout=120)
    assert anothers.run("status").exit_code == 0


@only_root
@pytest.mark.slow
def test_every_command_works_in_a_trusted_checkout_of_another_account(anothers: Project) -> None:
    trust(anothers.top)
    assert "answer.json" in committed_files(anothers.folder)
    for words in (
        ("doctor", "--quick"),
        ("iterate", "-n", "2"),
        ("status",),
        ("audit",),
        ("promote", "--branch", "home"),
        ("promote", "--patch", "-"),
        ("report", "-o", str(home("report.html"))),
    ):
        ended = anothers.run(*words)
        assert ended.exit_code == (1 if words[0] == "doctor" else 0), (words, ended)
        assert ended.stdout.count("✗") == (1 if words[0] == "doctor" else 0), "its judge sees both"
    (anothers.run_folder(1) / "changes.diff").unlink()
    assert "+" in anothers.run("show", "1", "--diff").stdout
    anothers.write({"hidden/judge.sh": "exit 1\n"})
    anothers.commit()
    assert "file hidden/judge.sh" in anothers.run("status").stdout


def test_the_usual_start_asks_git_where_it_is_once(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    ask = process.run
    monkeypatch.setattr(process, "run", lambda *how, **more: asked.append(how) or ask(*how, **more))
    locate(project.folder)
    assert len(asked) == 1


@pytest.mark.slow
def test_a_checkout_that_lies_elsewhere_is_climbed(project: Project) -> None:
    tree = project.top.parent / "tree"
    tree.mkdir()
    project.git("config", "core.worktree", "../../tree")
    project.git("checkout", "-f", "main", "--", ".")
    project.set_moves(answer(2), answer(3))
    records = project.climb("iterate", "-n", "1")
    assert records[-1]["outcome"] == "kept"
    (tree / "answer.json").write_text(answer(1.5))
    for words in (("status",), ("audit",), ("promote", "--branch", "taken"), ("compare", "--dirty", "-n", "2")):
        assert project.run(*words).exit_code == 0, words
    (tree / "hidden/judge.sh").write_text("exit 1\n")
    ended = project.run("baseline")
    assert ended.exit_code == 2 and "hidden/judge.sh" in ended.stderr
    assert (tree / "answer.json").read_text() == answer(1.5)


def test_a_git_folder_that_lies_elsewhere_is_found(project: Project) -> None:
    (project.top / ".git").rename(project.top.parent / "elsewhere.git")
    (project.top / ".git").write_text("gitdir: ../elsewhere.git\n")
    project.set_moves(answer(2))
    assert project.climb("iterate", "-n", "1")[-1]["outcome"] == "kept"


@only_root
def test_a_repository_may_not_take_somebody_elses_tree_for_its_checkout(project: Project) -> None:
    theirs = project.top.parent / "theirs"
    theirs.mkdir()
    give_away(theirs)
    project.git("config", "core.worktree", str(theirs))
    ended = project.run("status")
    assert ended.exit_code == 3 and "core.worktree" in ended.stderr and str(theirs) in ended.stderr


PROGRAMS = """
core.fsmonitor core.sshCommand core.pager core.editor core.askPass core.gitProxy core.alternateRefsCommand gpg.program
diff.external diff.x.textconv diff.x.command filter.x.smudge filter.x.process credential.helper
""".split()
PLANTED = dict.fromkeys(PROGRAMS, "{}") | {
    "commit.gpgSign": "true",
    "protocol.ext.allow": "always",
    "remote.origin.url": "ext::{}",
    "remote.origin.promisor": "true",
    "extensions.partialClone": "origin",
}
HOOKS = "reference-transaction post-index-change pre-commit post-commit post-checkout pre-auto-gc".split()


@pytest.mark.slow
def test_hostile_settings_run_nothing_beside_one_that_is_kept(project: Project) -> None:
    """Also from an included file, as hooks, and where an object is missing that a remote could be asked for."""
    for name in project.git("ls-files").splitlines():
        os.utime(project.top / name, (1, 1))
    project.git("status")  # from now on the user's own git status, which goalseek asks, has no file to filter
    program, planted = home("program"), home("planted")
    program.write_text(f"#!/bin/sh\necho $0 $* >> {planted}\ncat\n")
    program.chmod(0o755)
    hooks = home("hooks")
    hooks.mkdir()
    for name in HOOKS:
        (hooks / name).symlink_to(program)
        (project.top / ".git/hooks").mkdir(exist_ok=True)
        (project.top / ".git/hooks" / name).symlink_to(program)
    (project.top / ".git/info").mkdir(exist_ok=True)
    (project.top / ".git/info/attributes").write_text("* filter=x diff=x\n")
    project.set_moves(answer(2), answer(0.5))
    included = home("included")
    for name, value in PLANTED.items():
        project.git("config", "--file", str(included), name, value.format(program))
    project.git("config", "core.hooksPath", str(hooks))
    project.git("config", "core.sharedRepository", "group")
    project.git("config", "include.path", str(included))
    project.climb("iterate", "-n", "2")
    (project.run_folder(1) / "changes.diff").unlink()
    assert "+" in project.run("show", "1", "--diff").stdout
    for words in (("status",), ("audit",), ("report", "-o", str(home("report.html"))), ("doctor", "--quick")):
        assert project.run(*words).stdout.count("✗") == (1 if words[0] == "doctor" else 0), words
    blob = project.git("-c", "core.hooksPath=/dev/null", "rev-parse", "HEAD:answer.json")
    (project.top / ".git/objects" / blob[:2] / blob[2:]).unlink()
    assert project.run("show", "1", "--diff").exit_code != 0
    assert not planted.exists(), planted.read_text()


@only_root
@pytest.mark.slow
@pytest.mark.parametrize("level", levels("bubblewrap", "landlock"))
def test_the_agents_own_git_works_in_a_checkout_of_another_account(anothers: Project, level: str) -> None:
    trust(anothers.top)
    script = f"git status --short && git log --oneline && printf '%s' '{answer(5)}' > answer.json && git diff\n"
    anothers.set_agent(script, {"sandbox": {"mode": level}})
    anothers.commit("an agent")
    give_away(anothers.top)
    record = anothers.climb("iterate", "-n", "1")[-1]
    assert record["outcome"] == "kept", (record["why"], (anothers.run_folder(1) / "provider_output.md").read_text())
    output = (anothers.run_folder(1) / "provider_output.md").read_text()
    assert '+{"score": 5,' in output and "dubious" not in output


def modes(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_mode & 0o7777 for path in folder.rglob("*")}


@pytest.mark.slow
@pytest.mark.parametrize(
    "value, of_folders, of_files", [("group", 0o2770, 0o440), ("0664", 0o2775, 0o444), ("umask", 0o700, 0o400)]
)
def test_what_is_written_into_a_shared_repository_is_shared(
    project: Project, value: str, of_folders: int, of_files: int
) -> None:
    """Under the narrowest umask. The pack is of what the climb wrote; the secret stays its owner's."""
    git = project.top / ".git"
    project.git("config", "core.sharedRepository", value)
    project.git("repack", "-adq")
    before = modes(git)
    project.set_moves(answer(2), answer(0.5))
    mask = os.umask(0o077)
    try:
        assert run(["-C", str(project.folder), "iterate", "-n", "2"]) == 0  # in this process: the umask is its own
        found = {path: mode for path, mode in modes(git).items() if path not in before}
        with Repository(locate(project.folder), "demo") as repository:
            assert pack_when_due(repository, 3, pytest.fail, 1)
        packed = {path: mode for path, mode in modes(git).items() if path not in found and path not in before}
    finally:
        os.umask(mask)
    folders = [path for path in found if len(path) == len("objects/xx") and path.startswith("objects/")]
    folders += ["refs/goalseek", "refs/goalseek/demo", "refs/heads/goalseek", "goalseek", "goalseek/demo"]
    assert {path: oct(found[path]) for path in folders} == dict.fromkeys(folders, oct(of_folders))
    files = {path: mode for path, mode in found.items() if len(path) > 40 and path.startswith("objects/")}
    files |= {path: mode for path, mode in packed.items() if path.startswith("objects/pack/")}
    assert len(files) > 10 and {oct(mode) for mode in files.values()} == {oct(of_files)}
    ref = found["refs/goalseek/demo/ledger"], found["logs/refs/heads/goalseek/demo"]
    assert set(ref) == {of_files | 0o200 | (of_files & 0o040) >> 1 if value != "umask" else 0o600}
    assert found["goalseek/demo/secret"] == 0o600


@only_root
def test_another_account_of_the_group_climbs_by_another_name_and_not_on_with_this_one(project: Project) -> None:
    project.git("config", "core.sharedRepository", "world")
    lock, location = project.top / ".git/goalseek/demo/lock", locate(project.top)
    project.set_moves(answer(2))
    project.climb("iterate", "-n", "1")
    lock.parent.parent.chmod(0o777)
    for folder in lock.parents:
        if not folder.stat().st_mode & 0o001:
            folder.chmod(0o711)
    child = os.fork()
    if not child:
        code = 1
        with contextlib.suppress(BaseException):
            os.setgid(OTHER)
            os.setuid(OTHER)
            with pytest.raises(GoalseekError, match="another account"), project_lock(lock.parent):
                pass
            assert lock_holder(lock.parent) is None
            Repository(location, "other").objects.close()
            code = 0
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (lock.parent.parent / "other/objects.git/info/attributes").exists()


def test_a_candidate_under_way_is_forgotten_also_where_somebody_has_packed_its_ref(project: Project) -> None:
    with Repository(locate(project.top), "demo") as repository:
        for number in (3, 4):
            repository.add_flight(number, 1, repository.head())
        project.git("pack-refs", "--all")
        repository.add_flight(3, 2, repository.head())
        repository.remove_flight(3)
        assert repository.flight() == {4: (repository.head(),)}
    assert project.git("for-each-ref", "--format=%(refname)", "refs/goalseek") == "refs/goalseek/demo/flight/4/1"
