"""Makes the ledgers of ``test_old_ledgers``, with whatever goalseek its interpreter has.

``OLD/.venv/bin/python tests/support/make_old_ledgers.py tests/scenarios/test_old_ledgers`` writes an archive for each:
the repository with its refs, the secret of its seals, the records and the run folders, and what lies beside it. Needs bwrap, landlock
and optuna. A program that is only moved around never needs new ones: the old ones are what it must read.
"""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import fork_server
from project import FILES, IDENTITY, Project, answer, home

RUN = """\
if grep -q fail answer.json; then echo "told to fail" >&2; exit 3; fi
if grep -q hang answer.json; then sleep 60; fi
cp answer.json out.json
"""
JUDGE = """\
if grep -q odd out.json; then exit 125; fi
if grep -q silent out.json; then exit 0; fi
cp out.json "$GOALSEEK_RUN_DIR/metrics.json"
"""
SOURCES = {**FILES, "run.sh": RUN, "hidden/judge.sh": JUDGE, "src/page.txt": "a page\n"}
VERIFY = [
    {"name": "run", "run": "sh run.sh", "sees": "candidate", "outputs": ["out.json"], "timeout": "2s"},
    {"name": "judge", "run": "sh hidden/judge.sh", "sees": "hidden"},
]
SCOPE = {"writable": ["answer.json", "src/**"], "generated": ["out.json"], "hidden": ["hidden/**"]}
NOISY = """\
read -r value < answer.txt
if [ -e "$HOME/fails-$value" ]; then rm "$HOME/fails-$value"; exit 4; fi
if [ -e "$HOME/again-$value" ]; then touch "$HOME/waiting"; sleep 60; fi
if [ -e "$HOME/waits-$value" ]; then touch "$HOME/again-$value"; fi
printf '{"score": %s.%03d}\\n' "$value" $((GOALSEEK_SEED % 1000)) > "$GOALSEEK_RUN_DIR/metrics.json"
"""
FINAL = """\
if [ "$(cat answer.txt)" = 19 ]; then echo no >&2; exit 5; fi
printf '{"score": %s}\\n' "$(cat answer.txt)" > "$GOALSEEK_RUN_DIR/metrics.json"
"""
TOOLS = """\
plan() { printf '<<<GOALSEEK PLAN %s\\n%s\\nfor a reason\\nfiles:\\nanswer.json\\nGOALSEEK PLAN %s>>>\\n' $GOALSEEK_NONCE "$1" $GOALSEEK_NONCE; }
say() { printf '<<<GOALSEEK REVIEW %s\\n' $GOALSEEK_NONCE; printf '%s\\n' "$@"; printf 'GOALSEEK REVIEW %s>>>\\n' $GOALSEEK_NONCE; }
score() { printf '{"score": %s,\\n"size": 10\\n}\\n' "$1" > answer.json; echo "a score of $1"; }
cost() { printf '{"input_tokens": 70, "cached_tokens": 20, "output_tokens": 10%s}' "$1" > "$GOALSEEK_USAGE"; }
"""
AGENT = """\
case $GOALSEEK_ITERATION in 10|11) cost '';; *) cost ', "cost_usd": 0.25';; esac
case $GOALSEEK_ITERATION-$GOALSEEK_PHASE in
2-plan) echo 'no plan at all';;
*-plan) plan "idea $GOALSEEK_ITERATION";;
3-apply|12-apply) echo overloaded >&2; exit 7;;
4-apply) sleep 60;;
5-apply) score '"fail"';;
6-apply) score 6; echo mine > other.txt;;
7-apply) score '"fail 7"';;
7-repair) exit 7;;
8-apply) if [ ! -e "$HOME/went" ]; then touch "$HOME/went"; sleep 60; fi; score 8;;
*) score $GOALSEEK_ITERATION.5;;
esac
"""
AUTHOR = """\
case $GOALSEEK_ITERATION-$GOALSEEK_PHASE in
1-apply) score 1.5;;
4-repair) ;;
8-apply) score 0.5;;
*-repair) score $GOALSEEK_ITERATION.5;;
*) score $GOALSEEK_ITERATION;;
esac
"""
REVIEWER = """\
case $GOALSEEK_ITERATION-$(tr -dc 0-9.s < answer.json) in
2-*) say REJECTED 'It weakens a test.';;
3-s3s10|4-*) say CHANGES_REQUESTED 'It is too long.' 'It has no name.';;
5-*) echo 'fine by me';;
*) say APPROVED 'It is short.';;
esac
"""


def program(script: str) -> dict[str, Any]:
    """A provider that is a shell script, in the manifest itself, so that it is wherever the ledger is."""
    return {"name": "command", "command": ["sh", "-c", TOOLS + script]}


def scripted() -> dict[str, Any]:
    return {"name": "scripted", "script": "../repository-moves.toml"}


def ok(project: Project, *arguments: str, exit_code: int = 0) -> None:
    """Runs goalseek, which must end like this."""
    ended = project.run(*arguments)
    assert ended.exit_code == exit_code, (arguments, ended)


def make_plain(top: Path) -> Project:
    """A metric without noise, by a script: most reasons, three rulers, two runs, below bubblewrap."""
    manifest = {
        "scope": SCOPE,
        "verify": VERIFY,
        "metric": {"direction": "maximize", "query": "score", "noise": "none", "min_delta": 0.5, "valid": [-10, 100]},
        "guard": [{"query": "size", "max": 20}],
        "provider": scripted(),
        "sandbox": {"mode": "bubblewrap"},
    }
    project = Project.make(top, {**SOURCES, "program.md": "Make it larger.\n"}, manifest)
    (top.parent / "bad.patch").write_text("diff --git a/none b/none\n--- a/none\n+++ b/none\n@@ -1 +1 @@\n-x\n+y\n")
    one_line = '{"score": 2, "size": 10}\n'
    project.set_moves(
        *(answer(2), answer(1.5), answer("2.0"), one_line, answer(2.2), answer(5, 99), answer(500), answer('"fail"')),
        *(answer('"hang"'), answer('"silent"'), answer("NaN"), answer('"odd"'), one_line, answer(1.5)),
        {"files": {"other.txt": "mine\n"}},
        {"patch": "bad.patch"},
        {"files": {"answer.json": answer(3), "stray.txt": "left out\n"}},
        {"files": {"answer.json": answer(4), 'src/é "\n.txt': "odd\n"}},
        *(answer(6), answer(5), answer(9), answer(8), answer(20), answer(30), answer(40)),
    )
    project.climb("iterate", "-n", "18")
    project.write({"hidden/more.txt": "more\n"})
    project.commit("another ruler")
    ok(project, "baseline")
    ok(project, "direct", "Try whole numbers.")
    project.climb("iterate", "-n", "2")
    project.write({"answer.json": answer(1, 99)})
    project.commit("too large")
    ok(project, "baseline", "--from", "main")
    project.climb("iterate", "-n", "2", "--new")
    project.set_manifest({**manifest, "sandbox": {"mode": "none"}})
    return project


def make_noisy(top: Path) -> Project:
    """A metric that moves: measured by every command that records it, settled, with looks at a holdout.

    It ends in the middle of VERIFY, after the first measurement. Below landlock.
    """
    files = {"answer.txt": "5\n", "hidden/judge.sh": NOISY, "hidden/final.sh": FINAL}
    project = Project.make(top, files, "")
    project.manifest.unlink()
    project.commit("no manifest yet")
    words = ("--writable", "answer.txt", "--hidden", "hidden/**", "--direction", "maximize", "--query", "score")
    ok(project, "init", *words, "--run", "sh hidden/judge.sh", "--name", "demo")
    ok(project, "doctor")
    ok(project, "noise", "-n", "3")
    metric = {"direction": "maximize", "query": "score", "settle": 2}
    manifest: dict[str, Any] = {
        "scope": {"writable": ["answer.txt"], "hidden": ["hidden/**"]},
        "metric": metric,
        "verify": [{"run": "sh hidden/judge.sh", "sees": "both"}],
        "provider": scripted(),
        "sandbox": {"mode": "landlock"},
    }
    project.set_manifest(manifest)
    values = (9, 13, 19, 23, 29, 31, 37)
    same = [f"5{' ' * number}" for number in range(1, 13)]  # the same number in other bytes
    moves = [{"files": {"answer.txt": f"{value}\n"}} for value in (4, *same, *values)]
    project.set_moves(*moves[: -len(values)])
    project.climb("iterate", "-n", "2")
    while project.iterations()[-1]["reason"] != "within_noise":
        project.climb()
    project.set_moves(*moves[: len(project.iterations()) - 1], *moves[-len(values) :])
    holdout = {"run": "sh hidden/final.sh", "query": "score", "sees": "both", "when": "kept"}
    manifest = {**manifest, "holdout": holdout, "sandbox": {"mode": "none"}}
    project.set_manifest(manifest)
    ok(project, "baseline")
    project.climb("iterate", "-n", "2")
    home("fails-13").touch()
    so_far = len(project.iterations()) - 2
    project.set_manifest({**manifest, "metric": {**metric, "noise": "always"}, "limits": {"iterations": so_far + 1}})
    project.climb("iterate", "--forever")
    project.set_manifest({**manifest, "metric": {**metric, "settle": 1}, "limits": {"iterations": so_far + 2}})
    project.climb("iterate", "--forever")
    project.set_manifest(manifest)
    project.write({"hidden/final.sh": FINAL + "# another\n"})
    project.commit("another holdout")
    ok(project, "baseline")
    home("waits-29").touch()
    project.kill_when(home("waiting"), "iterate")
    return project


def make_agent(top: Path) -> Project:
    """A program that plans and repairs in a folder of a repository: killed calls, left-behind candidates, a fallback.

    It ends with a change that is stored, and no candidate yet.
    """
    hidden = top.parent / "verifier"
    hidden.mkdir(parents=True)
    (hidden / "secret.txt").write_text("hidden\n")
    os.utime(hidden / "secret.txt", (1_700_000_000, 1_700_000_000))  # whole seconds: an archive rounds them
    provider = {**program(AGENT), "ask_plan": True}
    manifest: dict[str, Any] = {
        "scope": {**SCOPE, "hidden_from": "../../verifier", "share": ["datasets"]},
        "verify": VERIFY,
        "provider": provider,
    }
    project = Project.make(top, {**SOURCES, ".gitignore": "datasets/\n"}, manifest, below="sub")
    project.write({"datasets/a.txt": "a\n"})
    project.climb("iterate", "-n", "3")
    project.set_manifest({**manifest, "provider": {**provider, "timeout": "1s"}})
    project.climb()
    project.set_manifest(manifest)
    project.climb("iterate", "-n", "3")
    project.kill_when(home("went"), "iterate")
    project.write({"datasets/a.txt": "changed\n"})
    project.climb()
    project.step_until(lambda: (project.run_folder(9) / "candidate.json").exists())
    shutil.rmtree(project.run_folder(9))
    project.climb()
    price = [{"model": "large", "input": 1.25, "cached": 0.125, "output": 10.0}]
    project.set_manifest({**manifest, "provider": {**provider, "model": "large"}, "price": price})
    project.step_until(lambda: (project.run_folder(10) / "candidate.json").exists())
    project.climb("iterate", "--new")
    subscription = {**provider, "model": "large", "billing": "subscription"}
    project.set_manifest({**manifest, "provider": subscription, "price": price})
    assert project.run("step").exit_code == 0
    scope = {**manifest["scope"], "writable": ["answer.json"]}
    project.set_manifest({**manifest, "scope": scope, "provider": subscription, "price": price})
    project.climb()
    manifest = {
        **manifest,
        "provider": {**provider, "fallback": [{**scripted(), "script": "../../repository-moves.toml"}]},
    }
    project.set_moves(*[answer(12)] * 14)
    project.set_manifest(manifest)
    project.climb()
    project.step_until(lambda: (project.run_folder(13) / "change.json").exists())
    return project


def make_review(top: Path) -> Project:
    """A second opinion, and a person's word; it ends with a verdict that waits for one."""
    review = {"provider": program(REVIEWER), "criteria": ["No test is weakened.", "It is short."]}
    manifest = {"scope": SCOPE, "verify": VERIFY, "provider": program(AUTHOR), "review": review}
    project = Project.make(top, SOURCES, manifest)
    project.climb("iterate", "-n", "5")
    project.set_manifest({**manifest, "approve": {"before": "kept"}})
    for word in ("approve 6", "decline 7"):
        ok(project, "iterate", exit_code=5)
        ok(project, *word.split())
        project.climb("iterate", "-n", "1")
    project.set_manifest({**manifest, "approve": {"before": "each"}})
    ok(project, "iterate", exit_code=5)
    ok(project, "approve", "8")
    project.climb("iterate", "-n", "1")
    project.set_manifest({**manifest, "approve": {"before": "kept"}})
    ok(project, "iterate", exit_code=5)
    return project


def make_tune(top: Path) -> Project:
    """Settings that were tuned and recorded elsewhere, played again, then tuned; names of commits are sha256.

    A number to minimize, read off what a command printed that sees the candidate only, after a setup.
    """
    files = {
        "knobs.sh": "WIDTH=39  # goalseek: int 1..40\n",
        "hidden/nothing.txt": "",
        "judge.sh": '. ./knobs.sh; echo "$UNIT: $((WIDTH + $(cat built/one)))"\n',
    }
    manifest: dict[str, Any] = {
        "scope": {"writable": ["knobs.sh"], "hidden": ["hidden/**"]},
        "setup": {"run": "mkdir built && echo 1 > built/one", "gives": ["built"]},
        "env": {"verify": {"set": {"UNIT": "width"}}},
        "verify": [{"run": "sh judge.sh", "sees": "candidate"}],
        "metric": {"name": "width", "direction": "minimize", "regex": r"width: (\d+)", "noise": "none"},
    }
    tune = {"name": "tune", "sampler": "random", "seed": 1}
    with tempfile.TemporaryDirectory() as folder:
        recorder = Project.make(Path(folder, "x"), files, {**manifest, "provider": {**tune, "record": "recordings"}})
        recorder.climb("iterate", "-n", "2")
        replay = {"name": "replay", "recordings": "recordings"}
        project = Project.make(top, files, {**manifest, "provider": replay}, object_format="sha256")
        shutil.copytree(recorder.folder / "recordings", project.folder / "recordings")
    project.climb("iterate", "-n", "2")
    project.set_manifest({**manifest, "provider": tune})
    project.climb("iterate", "-n", "2")
    return project


LEDGERS: Mapping[str, Callable[[Path], Project]] = {
    make.__name__.removeprefix("make_"): make for make in (make_plain, make_noisy, make_agent, make_review, make_tune)
}


def _without_samples(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """What an archive has of a file: nobody's name, and none of the hooks that git puts into every repository."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return None if entry.name.endswith(".sample") else entry


def main(target: Path, names: list[str]) -> None:
    """Makes all of them, or those that are named."""
    import goalseek

    print(f"with {goalseek.__file__}")
    target.mkdir(exist_ok=True)
    for name in names or LEDGERS:
        with tempfile.TemporaryDirectory() as folder:
            for variable, below in (("HOME", "home"), ("XDG_CACHE_HOME", "cache"), ("XDG_CONFIG_HOME", "config")):
                Path(folder, below).mkdir()
                os.environ[variable] = str(Path(folder, below))
            project = LEDGERS[name](Path(folder, name, "repository"))
            ok(project, "audit")
            outcomes = [(row["outcome"], row["reason"]) for row in project.iterations()]
            with tarfile.open(target / f"{name}.tar.xz", "w:xz", preset=9) as archive:
                archive.add(Path(folder, name), name, filter=_without_samples)
            print(name, len(project.records()), (target / f"{name}.tar.xz").stat().st_size, outcomes, sep="\n  ")
    fork_server.close()


if __name__ == "__main__":
    os.environ.update(IDENTITY)
    main(Path(sys.argv[1]), sys.argv[2:])
