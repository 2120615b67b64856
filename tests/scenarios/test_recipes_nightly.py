"""The recipe of a nightly pull request: its workflow passes actionlint, and its actions run as plain shell."""

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from inside import installation_hint
from project import Project, home
from recipes import block, install, path_with_it, put_on_path, typed

ROOT = Path(__file__).parents[2]
ACTION = ROOT / ".github/actions/goalseek"
WORKFLOW = block("A night that ends as a pull request", "yaml")
USES = re.compile(r"example/goalseek/(\S+)@main")
SECRETS = {"AGENT_KEY": "key-of-the-agent", "GH_TOKEN": "token-of-github"}
AGENT = r"""test "$AGENT_KEY" = key-of-the-agent || exit 77
score=$(tr -cd '0-9,' < answer.json | cut -d , -f 1)
printf '{"score": %s,\n"size": 10\n}\n' $((score + 1)) > answer.json
"""
JUDGE = 'env; cat /proc/*/environ 2>/dev/null | tr "\\\\0" "\\\\n"; cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"\n'
NOBODYS = [f"GIT_{role}_{what}" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")]
GH = """\
test "$GH_TOKEN" = token-of-github || exit 4
echo "$@" >> "$HOME/gh"
case "$1 $2" in
"pr list") cat "$HOME/open" 2>/dev/null || true;;
"pr create") echo 7 > "$HOME/open";;
esac
while [ $# -gt 0 ]; do if [ "$1" = --body-file ]; then cp "$2" "$HOME/text"; fi; shift; done
"""
PYTHON = """\
mkdir -p "$3/bin"
ln -sf "$(command -v goalseek)" "$3/bin/goalseek"
printf '#!/bin/sh\\necho pip "$@" >> "$HOME/installed"\\n' > "$3/bin/pip"
chmod +x "$3/bin/pip"
"""


def filled(text: object, values: Mapping[str, str]) -> str:
    """With its expressions replaced, as the service does; an unknown one is a KeyError."""
    return re.sub(r"\$\{\{ (\S+) \}\}", lambda found: values[found[1]], str(text))


def run_action(folder: Path, clone: Path, event: str = "schedule", **inputs: str) -> dict[str, str]:
    """The outputs of an action's steps, which run in a clone; artifacts are in ``~/artifacts``; a failure is the test's."""
    action, temp = yaml.safe_load((folder / "action.yml").read_text()), clone.with_name(f"{clone.name}-temp")
    temp.mkdir(exist_ok=True)
    values = {"github.token": SECRETS["GH_TOKEN"], "github.ref_name": "main", "runner.temp": str(temp)}
    values["steps.upload.outputs.artifact-url"] = "https://artifact"
    values |= {f"inputs.{name}": filled(given.get("default", ""), values) for name, given in action["inputs"].items()}
    values |= {f"inputs.{name.replace('_', '-')}": value for name, value in inputs.items()}
    failed = None
    for step in action["runs"]["steps"]:
        condition = step.get("if", "")
        needed = re.fullmatch(r"(\S+) != ''", condition)
        if (failed and condition != "always()") or (needed and not values.get(needed[1])):
            continue
        given = {name: filled(text, values) for name, text in {**step.get("env", {}), **step.get("with", {})}.items()}
        if "uses" in step:
            kept = home("artifacts", given["name"])
            ends = (given["path"], kept) if "upload" in step["uses"] else (kept, given["path"])
            shutil.copytree(*ends, dirs_exist_ok=True)
            continue
        files = {f"GITHUB_{name}": temp / name for name in ("OUTPUT", "STEP_SUMMARY", "PATH")}
        files["GITHUB_OUTPUT"].write_text("")
        usual = {"GITHUB_REPOSITORY": "user/repo", **{name: str(path) for name, path in files.items()}}
        usual |= {"GITHUB_ACTION_PATH": str(folder), "RUNNER_TEMP": str(temp), "GITHUB_EVENT_NAME": event}
        runner = {name: text for name, text in path_with_it().items() if name not in NOBODYS}
        try:
            typed(step["run"], clone, runner | usual | given)
        except AssertionError as error:
            failed = failed or error
        for line in files["GITHUB_OUTPUT"].read_text().splitlines():
            name, _, value = line.partition("=")
            values[f"steps.{step['id']}.outputs.{name}"] = value
    if failed:
        raise failed
    return values


@pytest.fixture
def repo(isolated: Path) -> Project:
    """A repository whose climb needs an agent's key, its origin, and a fork of it."""
    install()
    for name, script in (("gh", GH), ("sudo", 'echo sudo "$@" >> "$HOME/installed"'), ("python3", PYTHON)):
        put_on_path(name, script)
    project = Project.make(isolated / "repo")
    project.write({"hidden/judge.sh": JUDGE, "agent.sh": AGENT})
    agent = {"provider": {"name": "command", "command": ["sh", "agent.sh"]}, "sandbox": {"mode": "bubblewrap"}}
    project.set_manifest({**agent, "env": {"agent": {"pass": ["AGENT_KEY"]}}})
    project.commit("climbs at night")
    for bare in ("origin", "fork"):
        project.git("clone", "--quiet", "--bare", ".", str(isolated / f"{bare}.git"))
    project.git("remote", "add", "origin", str(isolated / "origin.git"))
    return project


def clone(name: str, origin: str = "origin") -> Path:
    subprocess.run(["git", "clone", "--quiet", home(f"{origin}.git"), home(name)], check=True, timeout=60)
    return home(name)


def night(name: str, limits: str = "-n 1") -> str:
    """The head of the pull request."""
    values = run_action(ACTION, clone(name), limits=limits, agent_env=f"AGENT_KEY={SECRETS['AGENT_KEY']}\n")
    return values["steps.pull-request.outputs.commit"]


def refs(bare: str = "origin") -> str:
    return typed("git for-each-ref --format='%(refname) %(objectname)'", home(f"{bare}.git")).stdout


@pytest.mark.slow
@pytest.mark.needs("bwrap")
def test_the_second_night_updates_the_pull_request_and_no_secret_reaches_a_verify_command(repo: Project) -> None:
    first = night("first")
    assert f"refs/heads/night {first}" in refs() and "refs/goalseek/demo/ledger" in refs()
    repo.write({"other.txt": "main moved on\n"})
    repo.commit("another day")
    repo.git("push", "--quiet", "origin", "main")
    second = night("second")
    assert second != first and f"refs/heads/night {second}" in refs()
    repo.git("fetch", "--quiet", "origin", "night")
    assert repo.git("log", "--format=%s", "main..FETCH_HEAD").count("\n") == 1, "both nights' changes, on the new main"
    asked = home("gh").read_text()
    assert asked.count("pr create --draft --head night --base main") == 1 and asked.count("pr edit 7") == 1
    text = home("text").read_text()
    assert "### Kept" in text and "[gain.tar](https://artifact)" in text
    assert night("third", limits="-n 0") == second, "nothing better: the same commit stays, with its checks"
    run_action(ACTION / "verify", clone("other"), commit=second)
    assert f"head_sha={second} -f status=completed -f conclusion=success" in home("gh").read_text()
    logs = [path for path in home().glob("*/.goalseek/**/*") if path.is_file()]
    assert any(path.name == "verifier.log" and "GOALSEEK_RUN_DIR=" in path.read_text() for path in logs)
    for path in [*logs, *home("artifacts").rglob("*")]:
        found = path.read_bytes() if path.is_file() else b""
        assert not [secret for secret in SECRETS.values() if secret.encode() in found], path


@pytest.mark.parametrize(
    ("code", "answer", "conclusion"),
    [
        (0, "agrees: …", "success"),
        (1, "disagrees: …", "failure"),
        (3, "cannot be compared: …", "neutral"),
        (3, "error: receipt.json is not the one that was signed", "failure"),
    ],
)
def test_each_answer_of_verify_has_its_check(code: int, answer: str, conclusion: str, repo: Project) -> None:
    home("artifacts/goalseek-claim").mkdir(parents=True)
    put_on_path("goalseek", f'echo "{answer}"; exit {code}')
    try:
        run_action(ACTION / "verify", clone("second"), commit="c0ffee")
    except AssertionError:
        assert conclusion == "failure"
    assert f"-f conclusion={conclusion}" in home("gh").read_text()


def test_a_night_without_a_gain_to_claim_opens_no_pull_request(repo: Project) -> None:
    put_on_path("goalseek", 'case "$*" in *length*) echo 1;; *claim*) exit 1;; esac')
    assert run_action(ACTION, clone("first")).get("steps.claim.outputs.commit") is None
    assert not home("gh").exists() and "refs/heads/night" not in refs()


@pytest.mark.slow
def test_what_would_hand_a_secret_on_is_refused(repo: Project) -> None:
    before = refs("fork")
    for event in ("pull_request", "pull_request_target", "workflow_run"):
        with pytest.raises(AssertionError, match="does not climb on the event"):
            run_action(ACTION, clone(event, "fork"), event, agent_env="AGENT_KEY=key-of-the-agent")
    tables: list[dict[str, Any]] = [
        {"sandbox": {"mode": "none"}},
        {"env": {"verify": {"pass": ["AGENT_KEY"]}}},
        {"env": {"verify": {"set": {"X": "${AGENT_KEY}"}}}},
    ]
    for number, table in enumerate(tables):
        repo.set_manifest({"project": {"name": f"careless-{number}"}, "sandbox": {"mode": "auto"}, **table})
        repo.commit("careless")
        repo.git("push", "--quiet", "origin", "main")
        with pytest.raises(AssertionError, match=r"would get the agent's keys|AGENT_KEY, which is not set"):
            night(f"careless-{number}")
    assert refs("fork") == before and "refs/heads/night" not in refs() and not home("gh").exists()


@pytest.mark.slow
@pytest.mark.needs("bwrap")
def test_somebody_elses_commit_on_the_branch_stays_and_the_records_are_pushed(repo: Project) -> None:
    repo.git("checkout", "-q", "-b", "night")
    repo.write({"other.txt": "by hand\n"})
    mine = repo.commit("by hand")
    repo.git("push", "--quiet", "origin", "night")
    with pytest.raises(AssertionError, match=r"commits of user@example\.com, and goalseek overwrites none"):
        night("first")
    assert f"refs/heads/night {mine}" in refs() and "refs/goalseek/demo/ledger" in refs()


def test_both_workflows_pass_actionlint_and_every_script_shellcheck(tmp_path: Path) -> None:
    shutil.copytree(ROOT / ".github", tmp_path / ".github")
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True, timeout=60)
    night = tmp_path / ".github/workflows/night.yml"
    night.write_text(USES.sub(r"./\1", WORKFLOW))  # so that the inputs are checked, too
    environment = path_with_it() | {"PATH": f"{Path(sys.executable).parent}:{path_with_it()['PATH']}"}
    typed("actionlint", tmp_path, environment)
    typed("shopt -s globstar; shellcheck -x -S warning .github/**/*.sh", tmp_path, environment)
    night.write_text(USES.sub(r"./\1", WORKFLOW.replace("commit: ${{ needs", "comit: ${{ needs")))
    assert "comit" in typed("actionlint", tmp_path, environment, exit_code=1).stdout, "the control"


def test_the_workflow_gives_each_job_what_it_needs_and_no_more() -> None:
    given = yaml.safe_load(WORKFLOW)
    assert set(given[True]) == {"schedule", "workflow_dispatch"} and given["permissions"] == {} and given["concurrency"]
    climb, verify = given["jobs"]["climb"], given["jobs"]["verify"]
    assert climb["permissions"] == {"contents": "write", "pull-requests": "write"} and "fork" in climb["if"]
    assert verify["permissions"] == {"contents": "read", "checks": "write"} and "secrets" not in str(verify)
    for job in (climb, verify):
        assert job["steps"][0]["with"] == {"fetch-depth": 0, "persist-credentials": False}
    (name,) = re.findall(r"sysctl -w ([\w.]+)=0$", (ACTION / "install.sh").read_text(), re.MULTILINE)
    place = home("settings", *name.split("."))
    place.parent.mkdir(parents=True)
    place.write_text("1\n")
    assert f"{name}=0" in installation_hint("bubblewrap", home("settings")), "as goalseek itself says"
