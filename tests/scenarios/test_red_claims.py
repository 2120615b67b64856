"""Red team of ``goalseek verify``: tars that a stranger made by hand. Each is refused by name, and leaves nothing."""

import io
import json
import os
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from claims import Members, claim, edit_receipt, members, rewrite, verify
from project import Project, Projects, answer

from goalseek.errors import GitFailed
from goalseek.evaluation import verify as checks

pytestmark = pytest.mark.needs("bwrap")
GIBI = 2**30


@pytest.fixture
def project(played: Projects) -> Project:
    return played(answer(2), answer(0.5), answer(3))


@pytest.fixture
def tar(project: Project) -> Path:
    """A claim that agrees as it is."""
    made = claim(project, "--hidden", "include")
    done = verify(made)
    assert done.exit_code == 0, done
    return made


def refused(tar: Path, *why: str) -> None:
    done = verify(tar, "--trust")
    assert done.exit_code == 3 and done.stdout == "" and "Traceback" not in done.stderr, done
    assert all(text in done.stderr for text in ("the claim is refused: ", *why)), done.stderr
    left = [path.name for path in Path(os.environ["XDG_CACHE_HOME"], "goalseek").iterdir()]
    assert not [name for name in left if name.startswith(".verify")], "the throw-away repository is gone"


def head(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0, target: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.size, made.linkname = kind, size, target
    return made


PLANTED: dict[str, tuple[tarfile.TarInfo, str]] = {
    "a path that leads out": (head("../../planted", size=1), "the tar has ../../planted, which is no part of a claim"),
    "an absolute path": (head("/tmp/planted", size=1), "which is no part of a claim"),
    "a hook": (head(".git/hooks/post-checkout", size=1), "the tar has .git/hooks/post-checkout"),
    "a folder": (head("objects", tarfile.DIRTYPE), "the tar has objects"),
    "a link that leads out": (head("receipt.json", tarfile.SYMTYPE, target="/etc/passwd"), "no regular file"),
    "a second name": (head("objects.pack", tarfile.LNKTYPE, target="/etc/passwd"), "no regular file"),
    "a device": (head("objects.pack", tarfile.CHRTYPE), "objects.pack is no regular file"),
    "a sparse file": (head("objects.pack", tarfile.GNUTYPE_SPARSE), "objects.pack is no regular file"),
    "a long name": (head("././@LongLink", tarfile.GNUTYPE_LONGNAME, 100 * GIBI), "././@LongLink"),
    "a pax header": (head("x", tarfile.XHDTYPE, 7 * GIBI), "the tar has x"),
    "a pack of 10 GB": (head("objects.pack", size=10 * GIBI), f"objects.pack would have {10 * GIBI} bytes"),
    "a receipt of a gigabyte": (head("receipt.json", size=GIBI), f"receipt.json would have {GIBI} bytes"),
    "a pack of less than nothing": (head("objects.pack", size=-4096), "objects.pack would have -4096 bytes"),
    "a member that ends early": (head("objects.pack", size=2 * GIBI), "the tar ends within objects.pack"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_member_that_no_claim_has_is_refused_before_it_is_written(name: str, tmp_path: Path) -> None:
    made, why = PLANTED[name]
    tar = tmp_path / "gain.tar"
    tar.write_bytes(made.tobuf(tarfile.GNU_FORMAT) + b"\1" * 512)
    if "10 GB" in name:
        os.truncate(tar, 10 * GIBI)
    refused(tar, why)
    assert not Path("/tmp/planted").exists() and not (tmp_path / "planted").exists()


def test_what_is_no_tar_of_two_members_once_each_is_refused(tar: Path) -> None:
    whole, content = tar.read_bytes(), members(tar)
    tar.write_bytes(b"no tar " * 1000)
    refused(tar, "it is no tar")
    tar.write_bytes(b"")
    refused(tar, "the tar lacks receipt.json")
    tar.write_bytes(whole[: len(whole) // 2])
    refused(tar)
    with tarfile.open(tar, "w", format=tarfile.USTAR_FORMAT) as opened:
        for name in ("receipt.json", "receipt.json"):
            opened.addfile(head(name, size=len(content[name])), io.BytesIO(content[name]))
    refused(tar, "the tar has receipt.json twice")
    for text in (b"", b"[]", b"[" * 100_000, b'{"format": 2}', b"\xff"):
        tar.write_bytes(whole)
        refused(rewrite(tar, lambda found, text=text: found.update({"receipt.json": text})))  # type: ignore[misc]


def change(field: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Sets ``a.b`` to a value; a function is called with the old one."""

    def edit(receipt: dict[str, Any]) -> None:
        *above, last = field.split(".")
        for name in above:
            receipt = receipt[name]
        receipt[last] = value(receipt[last]) if callable(value) else value

    return edit


def more(table: str) -> Callable[[str], str]:
    return lambda text: f"{text}\n{table}"


LEDGERS = "its receipt is not what its ledger and trees say"
EDITED: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "fewer tries": (change("tries", 1), f"{LEDGERS}: tries"),
    "more kept": (change("kept", 30), f"{LEDGERS}: kept"),
    "a larger gain": (change("settled.best", 9.0), f"{LEDGERS}: settled"),
    "a wider interval": (change("settled.interval", [0.1, 99.0]), f"{LEDGERS}: settled"),
    "other pairs": (change("settled.pairs", [[1.0, 9.0], [1.0, 9.0]]), f"{LEDGERS}: settled"),
    "other seeds": (change("seeds", [[1, 2]]), f"{LEDGERS}: seeds"),
    "honest authors": (change("open_keeps", 7), f"{LEDGERS}: open_keeps"),
    "another view": (change("sees", {"judge": "hidden"}), f"{LEDGERS}: sees"),
    "other keys": (change("keys.metric.direction", "minimize"), f"{LEDGERS}: keys"),
    "another ruler": (change("ruler", "0" * 64), f"{LEDGERS}: ruler"),
    "a file less": (lambda receipt: receipt["files"].pop("hidden/judge.sh"), "its files are not proven"),
    "another name": (change("project", "other"), "its manifest is not as goalseek claim writes it"),
    "another direction": (
        change("manifest", lambda text: text.replace('"maximize"', '"minimize"')),
        "its manifest has another verifier than its ledger",
    ),
    "no sandbox": (
        change("manifest", lambda text: text.replace('mode = "auto"', 'mode = "none"')),
        "its manifest is not",
    ),
    "files to read": (change("manifest", lambda text: text.replace("read = []", 'read = ["~/.ssh"]')), "its manifest"),
    "a program of mine": (
        change("manifest", lambda text: text.replace("[notify]", '[notify]\ncommand = ["touch", "/tmp/planted"]')),
        "its manifest is not as goalseek claim writes it",
    ),
    "another repository": (
        change("manifest", lambda text: text.replace('repo = "."', 'repo = "/etc"')),
        "its manifest",
    ),
    "no manifest": (change("manifest", "what = 1\n"), ""),
    "a folder outside": (change("folder", "../../"), ""),
    "a folder of git": (change("folder", ".git/hooks/"), ""),
    "a commit that is no hash": (change("commits.tip", "HEAD\ndelete refs/heads/main"), "is no hash"),
    "a commit that nobody has": (change("commits.tip", "1" * 40), ""),
    "a judge of its own": (
        change("own", lambda own: [*own, "hidden/judge.sh"]),
        "hidden/judge.sh is a file of the verifier",
    ),
}


@pytest.mark.parametrize("name", EDITED)
def test_an_edited_receipt_is_refused(name: str, tar: Path) -> None:
    edit, why = EDITED[name]
    edit_receipt(tar, edit)
    refused(tar, why)


def test_swapped_commits_and_trees_are_refused(tar: Path) -> None:
    whole = tar.read_bytes()
    for first, second in (("best", "baseline"), ("tip", "baseline"), ("ledger", "best"), ("pinned", "best")):
        for where in ("commits", "trees"):

            def swap(receipt: dict[str, Any], where: str = where, names: tuple[str, str] = (first, second)) -> None:
                held = receipt[where]
                if set(names) <= set(held):
                    held[names[0]], held[names[1]] = held[names[1]], held[names[0]]

            tar.write_bytes(whole)
            if (where, first) != ("trees", "ledger"):
                refused(edit_receipt(tar, swap))


def repacked(tar: Path, change_repository: Callable[[Path], dict[str, Any]], folder: Path) -> Path:
    """The claim with the objects of its pack and more; ``change_repository`` gives the commits to name in place."""
    subprocess.run(["git", "init", "--quiet", "--bare", str(folder)], check=True, timeout=60)
    git = ["git", "-C", str(folder)]

    def edit(content: Members) -> None:
        unpacking = [*git, "unpack-objects", "-q"]
        subprocess.run(unpacking, input=content["objects.pack"], check=True, timeout=60)
        receipt = json.loads(content["receipt.json"])
        receipt["commits"] |= change_repository(folder)
        listing = [*git, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)"]
        names = subprocess.run(listing, check=True, timeout=60, capture_output=True).stdout
        packing = [*git, "pack-objects", "-q", "--stdout"]
        packed = subprocess.run(packing, input=names, check=True, timeout=60, capture_output=True).stdout
        content.update({"objects.pack": packed, "receipt.json": json.dumps(receipt).encode()})

    return rewrite(tar, edit)


def git_in(folder: Path, *words: str, stdin: bytes = b"") -> str:
    identity = {**os.environ, "GIT_AUTHOR_NAME": "x", "GIT_AUTHOR_EMAIL": "x@x"}
    command = ["git", "-C", str(folder), *words]
    return (
        subprocess.run(command, input=stdin, check=True, timeout=120, capture_output=True, env=identity)
        .stdout.decode()
        .strip()
    )


def tree_with(folder: Path, *rows: str) -> str:
    return git_in(folder, "mktree", "--missing", stdin="".join(f"{row}\n" for row in rows).encode())


@pytest.mark.parametrize("name", [".git", ".GIT", "git~1", ".git\u200b", "..", "."])
def test_a_tree_that_names_gits_folder_is_refused(name: str, tar: Path, tmp_path: Path) -> None:
    def plant(folder: Path) -> dict[str, Any]:
        hook = git_in(folder, "hash-object", "-w", "--stdin", stdin=b"#!/bin/sh\ntouch /tmp/planted\n")
        hooks = tree_with(folder, f"100755 blob {hook}\tpost-checkout")
        raw = b"40000 %s\0%s" % (name.encode(), bytes.fromhex(tree_with(folder, f"040000 tree {hooks}\thooks")))
        git_in(folder, "hash-object", "-t", "tree", "-w", "--stdin", "--literally", stdin=raw)
        return {}

    refused(repacked(tar, plant, tmp_path / "bare"))
    assert not Path("/tmp/planted").exists()


def test_a_tree_that_would_fill_the_disk_is_refused(tar: Path, tmp_path: Path) -> None:
    def plant(folder: Path) -> dict[str, Any]:
        blob = git_in(folder, "hash-object", "-w", "--stdin", stdin=b"x")
        tree = tree_with(folder, *(f"100644 blob {blob}\t{number}" for number in range(10)))
        for _ in range(10):  # ten billion files
            tree = tree_with(folder, *(f"040000 tree {tree}\t{number}" for number in range(10)))
        return {}

    refused(repacked(tar, plant, tmp_path / "bare"), " files of ")

    def nest(folder: Path) -> dict[str, Any]:
        tree = tree_with(folder)
        for _ in range(3000):
            tree = git_in(
                folder, "hash-object", "-t", "tree", "-w", "--stdin", stdin=b"40000 a\0" + bytes.fromhex(tree)
            )
        return {}

    refused(repacked(tar, nest, tmp_path / "deep"), "recursion")


def test_an_object_that_would_fill_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git_in(tmp_path, "init", "--quiet", "--bare")
    blob = git_in(tmp_path, "hash-object", "-w", "--stdin", stdin=bytes(20_000_000))
    packed = git_in(tmp_path, "pack-objects", "-q", str(tmp_path / "objects/pack/pack"), stdin=f"{blob}\n".encode())
    pack = tmp_path / f"objects/pack/pack-{packed}.pack"
    assert pack.stat().st_size < 50_000
    checks.index_pack(pack, tmp_path)
    monkeypatch.setattr(checks, "_OBJECT_MOST", "10m")
    with pytest.raises(GitFailed, match="attempting to allocate"):
        checks.index_pack(pack, tmp_path)


def rewritten_ledger(folder: Path, edit: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The chain of the ledger with other records, as somebody without the secret can write it."""
    ledger = (folder / "ledger").read_text()
    chain = git_in(folder, "rev-list", "--first-parent", "--reverse", ledger).split()
    parent = chain[0]
    for commit in chain[1:]:
        head_lines, _, message = git_in(folder, "cat-file", "commit", commit).partition("\n\n")
        *subject, line = message.rstrip("\n").split("\n")
        row = json.loads(line)
        edit(row)
        text = "\n".join([*subject, json.dumps(row, separators=(",", ":"))]) + "\n"
        lines = head_lines.split("\n")
        first = next(number for number, each in enumerate(lines) if each.startswith("parent "))
        lines[first] = f"parent {parent}"
        raw = "\n".join(lines) + "\n\n" + text
        parent = git_in(folder, "hash-object", "-t", "commit", "-w", "--stdin", stdin=raw.encode())
    return {"ledger": parent}


def test_a_rewritten_ledger_contradicts_itself_or_its_makers_seals(project: Project, tar: Path, tmp_path: Path) -> None:
    whole, ledger = tar.read_bytes(), json.loads(members(tar)["receipt.json"])["commits"]["ledger"]

    def with_edit(edit: Callable[[dict[str, Any]], Any], name: str) -> Path:
        def rewrite_chain(folder: Path) -> dict[str, Any]:
            (folder / "ledger").write_text(ledger)
            return rewritten_ledger(folder, edit)

        tar.write_bytes(whole)
        return repacked(tar, rewrite_chain, tmp_path / name)

    refused(with_edit(lambda row: row.update(tree_hash="1" * 40) if "tree_hash" in row else None, "trees"), "ledger")
    refused(with_edit(lambda row: row.update(project="other"), "project"), "its ledger contradicts itself")
    forged = with_edit(lambda row: row.update(hypothesis_summary="mine") if "iteration" in row else None, "titles")
    assert verify(forged).exit_code in (0, 3), "nobody else can tell"
    done = verify(forged, folder=project.top)
    assert done.exit_code == 3 and "no seal of goalseek's" in done.stderr
