"""``goalseek demo`` and ``init --template``: an example becomes a repository that climbs."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from doctor_cases import Case

from goalseek.cli.commands.demo import templates
from goalseek.manifest import loading
from goalseek.manifest.tables import TIME_SOURCES

SOURCE = Path(__file__).resolve().parents[2]
NEEDS = {"cpp": "c++", "hyperfine": "hyperfine"}
RUNNABLE = [pytest.param(name, marks=[pytest.mark.needs(NEEDS[name])] if name in NEEDS else []) for name in templates()]


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """An empty folder."""
    case = Case(tmp_path / "empty", tmp_path / "runs")
    case.folder.mkdir()
    return case


@pytest.mark.slow
def test_what_it_says_to_type_works_in_an_empty_folder_too(case: Case) -> None:
    (case.folder / "here").mkdir()
    folder = case.folder / "here"
    programs = case.home / "programs"
    programs.mkdir()
    for name, program in {"git": shutil.which("git"), "python3": sys.executable}.items():
        (programs / name).symlink_to(str(program))
    variables = {"PATH": f"{programs}:/usr/bin:/bin"}
    printed = case.run("demo", "prompt", "here", "-n", "1", variables=variables)
    assert printed.exit_code == 0, printed.stderr
    hint = f"not on PATH:    alias goalseek={Path(sys.executable).with_name('goalseek')}\n"
    assert hint in printed.stdout and f"remove it:      rm -rf {folder}\n" in printed.stdout
    variables["PATH"] = f"{Path(sys.executable).parent}:{variables['PATH']}"
    assert "alias" not in case.run("demo", "prompt", "-n", "1", variables=variables).stdout
    for command in (("log",), ("show", "best", "--diff"), ("promote",), ("doctor", "--quick")):
        ended = case.run(*command, folder=folder)
        assert ended.exit_code == 0, (command, ended.stderr)
        assert ended.stdout
    assert "goalseek" in case.git("log", "--format=%an", "goalseek/prompt", folder=folder)


@pytest.mark.slow
def test_every_move_of_a_script_by_itself_inside_of_another_repository(case: Case) -> None:
    case.git("init", "--quiet", "--initial-branch=outer")
    shown = case.check("--json", "demo", "prompt", "here")
    last = [json.loads(line) for line in shown.splitlines()][-1]
    moves = (SOURCE / "fixtures/prompt/moves.toml").read_text().count("[[move]]")
    assert (last["event"], last["iterations"], last["folder"]) == ("demo", moves, str(case.folder / "here"))
    assert last["to"] > last["from"]
    assert case.git("for-each-ref") == "", "the outer one"
    assert case.git("rev-list", "--count", "main", folder=case.folder / "here") == "1"
    assert case.git("status", "--porcelain", folder=case.folder / "here") == ""


@pytest.mark.slow
def test_many_at_once_land_and_the_last_lines_say_what_was_moved(case: Case) -> None:
    shown = case.check("demo", "many", "here")
    rows = [line.split() for line in shown.splitlines() if line[:4].strip().isdigit()]
    assert sorted(int(row[0]) for row in rows) == [*range(13)]
    values = [int(row[3]) for row in rows if row[1] in ("baseline", "kept")]
    assert len(values) > 4 and values == sorted(set(values))
    _, after = shown.split("several at once: 12 iterations in ")
    merged, conflicts = after.splitlines()[1:3]
    assert "moved to a newer tip, and measured there: " in merged and merged[-1].isdigit()
    assert conflicts.startswith("  in conflict with it, and returned to the author once: ")
    here = case.folder / "here"
    assert case.git("rev-list", "--count", "goalseek/many", folder=here) == str(len(values))
    assert not case.git("for-each-ref", "refs/goalseek/many/flight", folder=here)


@pytest.mark.slow
def test_the_users_configuration_of_git_does_not_matter(case: Case) -> None:
    hooks = case.home / "template/hooks"
    hooks.mkdir(parents=True)
    (hooks / "pre-commit").write_text("#!/bin/sh\nexit 1\n")
    (hooks / "pre-commit").chmod(0o755)
    configuration = case.home / "gitconfig"
    configuration.write_text(
        "[init]\n\tdefaultBranch = strange\n\ttemplateDir = " + str(case.home / "template") + "\n"
        "[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = /bin/false\n[core]\n\thooksPath = " + str(hooks) + "\n"
        "\texcludesFile = " + str(case.home / "ignored") + "\n[user]\n\tuseConfigOnly = true\n"
    )
    (case.home / "ignored").write_text("*.csv\n*.toml\n")
    variables = {"GIT_CONFIG_GLOBAL": str(configuration), "GIT_DIR": str(case.home / "elsewhere")}
    ended = case.run("demo", "prompt", "here", "-n", "1", variables=variables)
    assert ended.exit_code == 0, ended.stderr
    folder = case.folder / "here"
    assert case.git("branch", "--format=%(refname:short)", folder=folder).split() == ["goalseek/prompt", "main"]
    assert "mails.csv" in case.git("ls-tree", "-r", "--name-only", "main", folder=folder).split()
    assert not (case.home / "elsewhere").exists()


def test_without_the_extra_nothing_is_written(case: Case) -> None:
    shadow = case.home / "shadow"
    shadow.mkdir()
    (shadow / "sitecustomize.py").write_text("import sys\nsys.modules['optuna'] = None\n")
    environment = {**case.environment, "PYTHONPATH": os.pathsep.join([str(shadow), *filter(None, sys.path)])}
    command = [sys.executable, "-m", "goalseek", "demo"]
    ended = subprocess.run(command, cwd=case.folder, env=environment, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 3, ended.stderr
    assert "goalseek[tune]" in ended.stderr
    assert list(case.folder.iterdir()) == []
    assert not (case.home / "cache/goalseek").exists()


def test_the_list_and_what_is_asked_for_wrongly_write_nothing(case: Case) -> None:
    ended = case.run("demo", "--help")
    assert all(
        f"{path.stem}: " in " ".join(ended.stdout.split())
        for path in (SOURCE / "manifests").glob("*.toml")
        if path.stem != "pace"
    )
    assert ended.exit_code == 0 and "handwritten digits" in " ".join(ended.stdout.split())
    for flags, code in ((("--provider", "nobody"), 2), (("--provider", "codex"), 3), (("-n", "0"), 2)):
        assert case.run("demo", "digits", *flags).exit_code == code
    ended = case.run("demo", "nonsense")
    assert ended.exit_code == 2 and "digits" in ended.stderr and "prompt" in ended.stderr
    assert list(case.folder.iterdir()) == []
    mine = case.folder / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work\n")
    assert case.run("demo", "digits", "mine").exit_code == 2
    assert [path.name for path in mine.iterdir()] == ["thesis.txt"]


@pytest.mark.slow
def test_from_an_installed_package(case: Case) -> None:
    """In a wheel the fixtures are in the package itself."""
    site = case.home / "site"
    shutil.copytree(SOURCE / "goalseek", site / "goalseek", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("fixtures", "manifests"):
        shutil.copytree(SOURCE / name, site / "goalseek" / name)
    variables = {"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    ended = case.run("demo", "bundle-size", "here", "-n", "1", variables=variables)
    assert ended.exit_code == 0, ended.stderr
    assert (case.folder / "here/build.py").exists()


def test_no_command_of_a_template_shows_hidden_files_to_code_and_the_number_is_out_of_its_reach() -> None:
    assert templates() == ["cpp", "hyperfine", "prompt", "pytest", "python", "text"]
    for name in templates():
        manifest = loading.load(SOURCE / "fixtures/templates" / name / "goalseek.toml").manifest
        last = manifest.verify[-1]
        assert manifest.scope.hidden and last.sees == "hidden"
        assert {command.sees for command in manifest.verify} == {"candidate", "hidden"}
        is_time = manifest.metric.source in TIME_SOURCES
        assert (manifest.metric.command == last.name) != is_time
        timed = next(command for command in manifest.verify if command.name == manifest.metric.command)
        assert not is_time or timed.outputs, "what was timed is checked"


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNNABLE)
def test_doctor_accepts_it_and_it_climbs_at_once(case: Case, name: str) -> None:
    ours = {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    assert "goalseek doctor, then goalseek iterate -n 20" in case.check("init", "--template", name)
    assert case.git("rev-list", "--count", "main") == "1" and case.git("status", "--porcelain") == ""
    examined = case.run("doctor", variables=ours)
    assert examined.exit_code == 0 and "✗" not in examined.stdout, examined.stdout
    climbed = case.run("iterate", "-n", "3", variables=ours)
    assert climbed.exit_code == 0, climbed.stderr
    reasons = [line.split()[2] for line in climbed.stdout.splitlines() if line[:4].strip().isdigit()]
    assert reasons[0] == "measured" and len(reasons) == 4
    assert {"better", "worse", "tie", "within_noise"} >= set(reasons[1:]), climbed.stdout
    assert (" lost of " in climbed.stdout) == (name == "prompt"), "it races case by case"


def test_the_prompt_template_answers_and_scores_the_cases_that_are_asked(tmp_path: Path) -> None:
    folder = tmp_path / "prompt"
    shutil.copytree(SOURCE / "fixtures/templates/prompt", folder)
    ids = [json.loads(line)["id"] for line in (folder / "cases.jsonl").read_text().splitlines()]
    assert len(ids) == 60 == len(json.loads((folder / "hidden/answers.json").read_text()))

    def score(asked: list[str] | None) -> dict[str, bool]:
        variables = {**os.environ, "GOALSEEK_RUN_DIR": str(tmp_path)}
        if asked is not None:
            (tmp_path / "cases.txt").write_text("".join(f"{name}\n" for name in asked))
            variables["GOALSEEK_CASES"] = str(tmp_path / "cases.txt")
        for script in ("ask.py", "hidden/score.py"):
            subprocess.run([sys.executable, script], cwd=folder, env=variables, timeout=60, check=True)
        results = json.loads((tmp_path / "metrics.json").read_text())["results"]
        return {row["id"]: row["score"] for row in results}

    scores = score(None)
    assert scores.keys() == set(ids) and 0 < sum(scores.values()) < 20
    assert score(ids[9:3:-1]) == {name: scores[name] for name in ids[4:10]}
    (folder / "prompt.txt").write_text((folder / "prompt.txt").read_text().replace('rent: "order"', 'rent: "rental"'))
    assert sum(score(None).values()) > sum(scores.values())


def test_in_a_repository_the_files_are_left_to_the_user_and_none_is_overwritten(case: Case) -> None:
    case.git("init", "--quiet", "--initial-branch=main")
    assert "git add goalseek.toml hidden rules.txt && git commit" in case.check("init", "--template", "text")
    assert case.git("status", "--porcelain").split() == ["??", "goalseek.toml", "??", "hidden/", "??", "rules.txt"]
    (case.folder / "rules.txt").write_text("mine\n")
    (case.folder / "goalseek.toml").unlink()
    assert "hidden is there already" in case.fail(2, "init", "--template", "text")
    assert (case.folder / "rules.txt").read_text() == "mine\n"
    assert not (case.folder / "goalseek.toml").exists()


def test_an_unknown_name_and_a_flag_that_would_be_ignored_are_refused(case: Case) -> None:
    assert "cpp, hyperfine, prompt, pytest, python, text" in case.fail(2, "init", "--template", "cobol")
    for flag in (("--writable", "a"), ("--yes",), ("-m", "fast"), ("--score", "true")):
        refused = case.run("init", "--template", "text", *flag)
        assert refused.exit_code == 2 and "--template" in refused.stderr, flag
    assert list(case.folder.iterdir()) == []
