"""A gain as one file: who measures it again, with what, and what ``goalseek verify`` answers."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import case_projects
import jsonschema
import pytest
from claims import answer_of, claim, edit_receipt, members, receipt_of, rewrite, verify
from msgspec import structs
from noisy import METRIC, NOISY
from project import MANIFEST, Project, Projects, answer, everything_written, home

from goalseek import load
from goalseek.cli import main
from goalseek.evaluation import verify as checks
from goalseek.evaluation.claim import Receipt
from goalseek.evaluation.measurements import MeasuredValue
from goalseek.manifest.keys import published_schema
from goalseek.manifest.tables import Guard, Manifest
from goalseek.sandbox import level
from goalseek.values import from_line

pytestmark = pytest.mark.needs("bwrap")
LABELS = b"hidden-label-4711\n"
TIMED = {"direction": "minimize", "source": "wall", "command": "judge", "name": "seconds", "noise": "none"}


def climbed_with_labels(top: Path) -> Project:
    """A climb with labels that are hidden at one path, were visible at another, and have an earlier version."""
    project = Project.make(top, files={"answer.json": answer(1), "labels.txt": LABELS + b"old\n"})
    judge = 'grep -q label hidden/labels.txt && cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"\n'
    project.write({"hidden/judge.sh": judge, "hidden/labels.txt": LABELS + b"older\n", "notes.txt": "for all\n"})
    project.commit("labels")
    project.write({"hidden/labels.txt": LABELS, "copy.txt": LABELS})
    project.git("rm", "--quiet", "labels.txt")
    project.commit("hide them")
    project.set_moves(answer(2), answer(0.5), answer(3))
    project.climb("iterate", "-n", "3")
    return project


@pytest.fixture
def project(made_once: Projects, tmp_path: Path) -> Project:
    return made_once(climbed_with_labels, tmp_path / "repository")


def test_a_claim_is_measured_again_by_whoever_has_the_hidden_files(project: Project, tmp_path: Path) -> None:
    before = project.users()
    tar = claim(project)
    assert project.users() == before and json.loads(project.check("audit", "--json") or "[]") == []
    receipt = receipt_of(tar)
    jsonschema.validate(receipt, published_schema("receipt"))
    assert (receipt["tries"], receipt["kept"], receipt["sees"]) == (3, 2, {"judge": "both"})
    assert receipt["commits"]["best"] == project.iterations()[-1]["commit_hash"]
    assert receipt["files"]["hidden/labels.txt"].split()[1] == project.git("rev-parse", "main:hidden/labels.txt")
    assert receipt["settled"]["pairs"] and len(receipt["seeds"]) == len(receipt["settled"]["pairs"])
    cache = Path(os.environ["XDG_CACHE_HOME"], "goalseek")
    (cache / ".verify-4194999-killed/repository").mkdir(parents=True)
    code, found, why = answer_of(tar)
    assert (code, found) == (3, "cannot be compared") and "hidden/judge.sh" in why and "hidden/labels.txt" in why
    mine = tmp_path / "mine"
    shutil.copytree(project.top / "hidden", mine / "in" / "any folder")
    shutil.copy(project.top / "hidden/labels.txt", mine / "a name")
    done = verify(tar, "--hidden-from", str(mine))
    assert done.exit_code == 0 and "\nagrees: " in done.stdout and ", seals checked of all but" in done.stdout
    assert receipt["warnings"][0].startswith("candidate code can read the hidden files")
    assert f"\nwarning: {receipt['warnings'][0]}\n" in done.stdout
    assert "changed: answer.json" in done.stdout and done.stdout.count("1 → 3: 200% better (exactly)") == 2
    (mine / "in/any folder/labels.txt").write_bytes(LABELS + b"of another\n")
    (mine / "a name").write_bytes(b"hidden-label-0815\n")
    assert answer_of(tar, "--hidden-from", str(mine))[:2] == (3, "cannot be compared")
    left = [path.name for path in cache.iterdir()]
    assert len(left) == 1 and left[0].startswith("demo-"), "the throw-away repository is gone, and that of a killed one"


def test_a_clone_has_the_hidden_files_and_its_maker_the_secret(project: Project, tmp_path: Path) -> None:
    tar = claim(project)
    before = project.users()
    done = verify(tar, folder=project.top)
    assert done.exit_code == 0 and " records, seals checked\n" in done.stdout
    assert project.users() == before
    project.git("clone", "--quiet", str(project.top), str(tmp_path / "clone"))
    done = verify(tar, folder=tmp_path / "clone")
    assert done.exit_code == 0 and " records, seals checked of all but" in done.stdout


def test_no_hidden_byte_is_in_the_tar_unless_it_is_asked_for(project: Project, tmp_path: Path) -> None:
    def objects_in(tar: Path) -> bytes:
        folder = tmp_path / f"of {len(list(tmp_path.iterdir()))}"
        subprocess.run(["git", "init", "--quiet", "--bare", str(folder)], check=True, timeout=60)
        (folder / "objects/pack/pack-1.pack").write_bytes(members(tar)["objects.pack"])
        git = ["git", "-C", str(folder)]
        subprocess.run([*git, "index-pack", "objects/pack/pack-1.pack"], check=True, timeout=60, capture_output=True)
        everything = [*git, "cat-file", "--batch-all-objects", "--batch"]
        return subprocess.run(everything, check=True, timeout=60, capture_output=True).stdout

    hidden = [b"hidden-label", b"grep -q label"]
    for lines in (project.top / "hidden").iterdir():
        hidden += lines.read_bytes().splitlines()
    assert all(any(word in found for _, found in everything_written(project)) for word in hidden)
    tar = claim(project)
    whole = tar.read_bytes() + objects_in(tar)
    assert [word for word in hidden if word in whole] == [] and b"for all" in whole
    assert b"moves.toml" not in whole, "nor the manifest, which may have more to hide"
    included = claim(project, "--hidden", "include")
    assert all(word in objects_in(included) for word in hidden)
    assert answer_of(included)[:2] == (0, "agrees"), "a colleague needs nothing else"


@pytest.mark.slow
def test_hidden_files_outside_the_repository_go_by_their_hashes(make_project: Projects, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "hidden").mkdir(parents=True)
    (outside / "hidden/judge.sh").write_text('cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"  # outside\n')
    scope = {"writable": ["answer.json"], "hidden_from": "../outside"}
    project = make_project(files={"answer.json": answer(1)}, manifest={"scope": scope})
    project.set_moves(answer(2))
    project.climb()
    tar = claim(project)
    assert list(receipt_of(tar)["hidden_from"]) == ["hidden/judge.sh"] and b"# outside" not in tar.read_bytes()
    assert answer_of(tar)[:2] == (3, "cannot be compared")
    copy = tmp_path / "copy"
    shutil.copytree(outside, copy, copy_function=shutil.copyfile)  # another time
    assert answer_of(tar, "--hidden-from", str(copy))[:2] == (0, "agrees")
    assert answer_of(claim(project, "--hidden", "include"))[:2] == (0, "agrees")
    objects = project.git("cat-file", "--batch-all-objects", "--batch")
    assert "# outside" not in objects, "no hidden content is left in the repository"


def test_a_number_that_somebody_else_does_not_get_disagrees(make_project: Projects, tmp_path: Path) -> None:
    """The judge adds what lies on the claimant's disk alone, which no sandbox shows."""
    bonus = tmp_path / "bonus"
    bonus.write_text("7")
    judge = (
        'score=$(sed -n "s/.*score.: \\([0-9]*\\).*/\\1/p" answer.json)\n'
        f'[ "$score" -gt 1 ] && bonus=$(cat {bonus} 2>/dev/null)\n'
        'echo "{\\"score\\": $((score + ${bonus:-0}))}" > "$GOALSEEK_RUN_DIR/metrics.json"\n'
    )
    project = make_project(files={"answer.json": answer(1), "hidden/judge.sh": judge})
    project.set_moves(answer(2))
    project.climb()
    tar = claim(project, "--hidden", "include")
    assert receipt_of(tar)["settled"]["best"] == 9
    done = verify(tar)
    assert done.exit_code == 1 and "\ndisagrees: the claimed numbers repeat exactly" in done.stdout
    assert "claimed   1 → 9" in done.stdout and "measured  1 → 2" in done.stdout


def test_a_verifier_that_gives_no_number_here_cannot_be_compared(make_project: Projects, tmp_path: Path) -> None:
    """The judge needs what lies on the claimant's disk alone."""
    (tmp_path / "key").write_text("1")
    judge = f'cat {tmp_path}/key >/dev/null && cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"\n'
    tables = {"sandbox": {"read": [str(tmp_path / "key")]}}
    project = make_project(files={"answer.json": answer(1), "hidden/judge.sh": judge}, manifest=tables)
    project.set_moves(answer(2))
    project.climb()
    code, found, why = answer_of(claim(project, "--hidden", "include"))
    assert (code, found) == (3, "cannot be compared") and "the baseline has no number" in why


@pytest.mark.slow
def test_under_noise_the_two_intervals_decide(make_project: Projects) -> None:
    judge = NOISY.replace('echo "$GOALSEEK_ITERATION', ': "').replace('>> "$HOME/journal"', "")
    project = make_project(
        files={"answer.json": answer(1), "hidden/judge.sh": judge},
        manifest={"metric": {**METRIC, "noise": "always", "settle": 3}},
    )
    project.set_moves(answer(5))
    project.climb()
    tar = claim(project, "--hidden", "include")
    claimed = receipt_of(tar)
    done = verify(tar, "--json")
    found = json.loads(done.stdout)
    assert (done.exit_code, found["answer"], found["measured"]["pairs"]) == (0, "agrees", 3)
    assert found["measured"]["interval"] != claimed["settled"]["interval"], "with fresh seeds"
    assert json.loads(verify(tar, "--json", "-n", "2").stdout)["measured"]["pairs"] == 2
    receipt, manifest = from_line(Receipt, members(tar)["receipt.json"]), load(project.manifest).manifest
    guarded = structs.replace(manifest, guard=(Guard(name="size", max=5.0),))

    def judged(values: list[tuple[float, float]], by: Manifest = manifest) -> tuple[str, str]:
        runs = [[MeasuredValue(value, {"size": 10}, (), 1.0) for value in pair] for pair in values]
        pairs = [(before, after) for before, after in runs]
        return checks._judge(receipt.settled, by, pairs)

    assert judged([(1.1, 5.1), (1.2, 5.2), (1.0, 5.0)]) == ("agrees", judged([(1.1, 5.2), (1.0, 5.1)])[1])
    assert judged([(1.1, 1.0), (1.2, 1.4), (1.0, 1.1)])[1].startswith("no gain shown: ")
    assert judged([(5.1, 1.1), (5.2, 1.2), (5.0, 1.0)]) == ("disagrees", "the best is worse here")
    assert judged([(1.1, 51), (1.2, 55), (1.0, 47)])[1].endswith("by more than is claimed")
    assert "do not overlap" in judged([(4.1, 5.1), (4.2, 5.2), (4.0, 5.0)])[1]
    assert judged([(0.0, 4.0), (0.1, 4.2), (-0.1, 4.1)])[0] == "agrees", "both in the metric's units"
    assert judged([(1.1, 5.1), (1.2, 5.2)], guarded)[0] == "disagrees"


@pytest.mark.slow
def test_a_time_elsewhere_and_another_version_of_a_tool_cannot_be_compared(
    make_project: Projects, tmp_path: Path
) -> None:
    files = {"answer.json": answer(1), "wait.py": "import time; time.sleep(0.5)\n", "hidden/x": "x\n"}
    commands = [{"name": "judge", "run": [sys.executable, "wait.py"], "sees": "candidate"}]
    commands += [{"name": "tools", "run": "git --version", "sees": "candidate", "once": True}]
    tables = {"metric": TIMED, "verify": commands}
    scope = {"writable": ["wait.py"], "hidden": ["hidden/**"]}
    project = make_project(files=files, manifest={**tables, "scope": scope})
    project.set_moves({"files": {"wait.py": "pass\n"}})
    project.climb()
    tar = claim(project, "--hidden", "include")
    assert list(receipt_of(tar)["tools"]) == ["git"]
    code, found, why = answer_of(tar)
    assert code in (0, 1) and found != "cannot be compared", why  # on a busy machine they may differ
    same = tar.read_bytes()
    edit_receipt(tar, lambda receipt: receipt.update(host="x86_64, 8 processors: Another Processor"))
    code, found, why = answer_of(tar)
    assert (code, found) == (3, "cannot be compared") and "seconds is a time" in why and "Another Processor" in why
    tar.write_bytes(same)
    edit_receipt(tar, lambda receipt: receipt["tools"].update(git="git version 1.7"))
    code, found, why = answer_of(tar)
    assert (code, found) == (3, "cannot be compared") and "git was git version 1.7, here git version" in why


def test_nothing_is_claimed_without_a_gain(played: Projects, tmp_path: Path) -> None:
    project = played(answer(0.5))
    ended = project.run("claim", "-o", str(tmp_path / "gain.tar"))
    assert ended.exit_code == 2 and "nothing was kept" in ended.stderr
    assert not (tmp_path / "gain.tar").exists()
    ended = project.run("claim", "-o", "/nowhere/gain.tar")
    assert ended.exit_code == 2 and "-o /nowhere/gain.tar" in ended.stderr


ASKS: dict[str, dict[str, Any]] = {
    "the network for judge": {"verify": [{**MANIFEST["verify"][0], "network": True}]},
    "your variable SECRET": {"env": {"verify": {"pass": ["SECRET"]}}},
    "your variables for PLACE": {"env": {"verify": {"set": {"PLACE": "${HOME}"}}}},
    "your data": {"scope": {**MANIFEST["scope"], "share": ["data"]}},
}


@pytest.mark.parametrize("asks", ASKS)
def test_what_a_strangers_code_may_have_is_asked_for(
    asks: str, make_project: Projects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "1")
    project = make_project(files={"answer.json": answer(1), ".gitignore": "data\n"}, manifest=ASKS[asks])
    judge = 'cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"\n'
    project.write({"hidden/judge.sh": ("cat data/x && " if "data" in asks else "") + judge, "data/x": "shared\n"})
    project.commit("a judge")
    project.set_moves(answer(2))
    project.climb()
    tar = claim(project, "--hidden", "include")
    done = verify(tar)
    assert (done.exit_code, done.stdout) == (3, "") and asks in done.stderr and "--trust" in done.stderr
    if "data" in asks:
        assert answer_of(tar, "--trust")[:2] == (3, "cannot be compared")
    assert answer_of(tar, "--trust", "--hidden-from", str(project.top))[:2] == (0, "agrees")


def test_without_a_sandbox_only_trust_runs_it(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tar = claim(project, "--hidden", "include")
    monkeypatch.setattr(level, "_failure", lambda name: "not here")
    monkeypatch.chdir(tar.parent)
    assert main.run(["verify", str(tar)]) == 3
    assert "no sandbox for a stranger's code: bubblewrap: not here; landlock: not here" in capsys.readouterr().err
    assert main.run(["verify", str(tar), "--trust"]) == 0
    assert "\nagrees" in capsys.readouterr().out


@pytest.mark.needs("landlock")
def test_landlock_is_sandbox_enough(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tar, failure = claim(project, "--hidden", "include"), level._failure
    monkeypatch.setattr(level, "_failure", lambda name: "not here" if name == "bubblewrap" else failure(name))
    assert main.run(["verify", str(tar)]) == 0
    assert "sandbox: landlock" in capsys.readouterr().out


@pytest.mark.slow
def test_a_long_climb_in_a_folder_is_claimed_too(make_project: Projects) -> None:
    """With several at once, a change taken back, another baseline, and the longer hash."""
    project = make_project(below="sub/deeper", object_format="sha256")
    project.set_moves(*map(answer, (2, 3, 1, 4, 5)))
    project.climb("iterate", "-n", "2")
    project.check("revert", "2")
    project.set_manifest({"limits": {"stagnation": 7}})
    project.commit("no part of the verifier")
    project.check("baseline")
    project.climb("iterate", "-n", "3", "--jobs", "2")
    tar = claim(project)
    receipt = receipt_of(tar)
    assert receipt["folder"] == "sub/deeper/" and receipt["commits"]["baseline"] != receipt["commits"]["pinned"]
    assert answer_of(tar, "--hidden-from", str(project.top))[:2] == (0, "agrees")


@pytest.mark.slow
def test_cases_are_compared_case_by_case_again(make_project: Projects) -> None:
    project = make_project(files=case_projects.files(), manifest=case_projects.tables())
    project.set_moves({"files": {"answer.json": case_projects.right(*range(14))}})
    project.climb()
    done = verify(claim(project, "--hidden", "include"), "--json")
    found = json.loads(done.stdout)
    assert (done.exit_code, found["answer"], found["measured"]["cases"]) == (0, "agrees", 16), done


@pytest.mark.needs("ssh-keygen")
def test_an_ssh_key_of_gits_signs_and_the_signers_are_known_by_name(project: Project, tmp_path: Path) -> None:
    keys = [tmp_path / "mine", tmp_path / "other"]
    for key in keys:
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(key)]
        subprocess.run(words, check=True, timeout=60)
    signers = tmp_path / "signers"
    signers.write_text(f"ann@example.com {keys[0].with_suffix('.pub').read_text()}")
    tar = claim(project, "--hidden", "include")
    done = verify(tar, "--signers", str(signers))
    assert done.exit_code == 3 and "nobody signed it" in done.stderr
    project.git("config", "gpg.format", "ssh")
    project.git("config", "user.signingkey", str(keys[0]))
    tar = claim(project, "--hidden", "include")
    assert list(members(tar)) == ["receipt.json.sig", "receipt.json", "objects.pack"]
    assert "signed by ann@example.com;" in verify(tar, "--signers", str(signers)).stdout
    assert "signed with ED25519 key SHA256:" in verify(tar).stdout
    signers.write_text(f"bob@example.com {keys[1].with_suffix('.pub').read_text()}")
    done = verify(tar, "--signers", str(signers))
    assert done.exit_code == 3 and "none of anybody in" in done.stderr
    signers.write_text(f'ann@example.com namespaces="git" {keys[0].with_suffix(".pub").read_text()}')
    done = verify(tar, "--signers", str(signers))
    assert done.exit_code == 3 and "none of ann@example.com in" in done.stderr
    edit_receipt(tar, lambda receipt: receipt.update(host="of somebody"))
    done = verify(tar)
    assert done.exit_code == 3 and "the signature does not hold" in done.stderr
    project.git("config", "user.signingkey", str(tmp_path / "gone"))
    before = len(project.records())
    done = project.run("claim", "-o", str(tar))
    assert done.exit_code == 3 and "cannot sign with user.signingkey" in done.stderr
    assert len(project.records()) == before, "nothing is measured first"


@pytest.mark.needs("gpg")
def test_a_gpg_key_of_gits_signs(
    project: Project, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    keyring = tempfile.mkdtemp(prefix="gpg-", dir="/tmp")  # short: the agent's socket lies there
    request.addfinalizer(lambda: shutil.rmtree(keyring))
    monkeypatch.setenv("GNUPGHOME", keyring)
    making = ["gpg", "--batch", "--quiet", "--passphrase", "", "--quick-gen-key", "ann@example.com", "ed25519", "sign"]
    subprocess.run(making, check=True, timeout=120, capture_output=True)
    project.git("config", "user.signingkey", "ann@example.com")
    tar = claim(project, "--hidden", "include")
    try:
        assert "receipt.json.asc" in members(tar)
        done = verify(tar)
        assert done.exit_code == 0 and "signed with a gpg key of ann@example.com, trust: ULTIMATE" in done.stdout
        content = rewrite(tar, lambda found: found.update({"receipt.json": found["receipt.json"] + b" "}))
        assert "the signature does not hold" in verify(content).stderr
    finally:
        subprocess.run(["gpgconf", "--kill", "all"], check=True, timeout=60)
    monkeypatch.setenv("GNUPGHOME", str(home()))
    assert "which your keyring does not have" in verify(claim_unsigned_keyring(tar)).stdout


def claim_unsigned_keyring(tar: Path) -> Path:
    return rewrite(tar, lambda found: found.update({"receipt.json": found["receipt.json"].removesuffix(b" ")}))
