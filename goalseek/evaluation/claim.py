"""A claim: the gain settled afresh, and all that somebody else needs to measure it again, as one tar."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Literal

import tomli_w
from msgspec import structs

from goalseek.errors import BAD_FINDING, GoalseekError
from goalseek.evaluation import measurements
from goalseek.evaluation.settle import settle_on_request
from goalseek.git.as_user import temporary_objects
from goalseek.git.objects import Objects
from goalseek.git.paths import SUBMODULE, quote_path
from goalseek.git.repository import walk_first_parents
from goalseek.git.signing import SUFFIXES, Signer, sign
from goalseek.host import kind_of_host
from goalseek.ledger.artifacts import environment_facts
from goalseek.ledger.ledger import RULER_FILE
from goalseek.ledger.receipt import PACK, RECEIPT, Receipt, write_tar
from goalseek.manifest.command_words import parse_command
from goalseek.manifest.loading import to_tables
from goalseek.manifest.tables import EnvironmentTable, Manifest, ProjectTable, VerifyCommand
from goalseek.measurement.verifier import run_command
from goalseek.project.config import Config
from goalseek.project.project import Project
from goalseek.sandbox.supervisor import HeadAndTail
from goalseek.values import to_line
from goalseek.workspace import hidden_files

_VERSION_SECONDS = 20.0


def make_claim(
    project: Project, file: BinaryIO, hidden: Literal["digest", "include"], signer: Signer | None
) -> Receipt:
    """Settle, and write the tar. Raises GoalseekError if that shows no gain, or nobody could check it."""
    config, repository = project.config(), project.repository
    settle_on_request(project, config, least=2)
    assert project.standing.baseline
    pinned, scope = project.standing.baseline.tree, config.scope
    files = measurements.ruler_files(project, config, pinned)
    try:
        facts = facts_of(project, config, files)
    except ValueError as error:
        raise GoalseekError(f"this cannot be claimed: {error}", "see: goalseek help claim", BAD_FINDING) from None
    repository.objects.bring_back()
    with temporary_objects(repository) as objects:
        outside = _write_hidden_from(objects, config, hidden == "include")
        by_path = {(path, entry) for tree in facts["trees"].values() for path, entry in objects.files(tree).items()}
        own = {path for path, _ in by_path if scope.is_own_file(path) and scope.kind(path) == "hidden"}
        receipt = Receipt(
            **facts,
            folder=scope.prefix,
            made_at=project.ledger.now(),
            hidden=hidden,
            object_format=repository.location.object_format,  # type: ignore[arg-type]
            files=files,
            hidden_from=outside,
            own=tuple(sorted(own)),
            manifest=manifest_text(config.manifest),
            host=kind_of_host(),
            sandbox=project.confines.level.name,
            versions=environment_facts(),
            tools=tool_versions(project, config, pinned),
        )
        entries = [(path, entry.blob) for path, entry in by_path if entry.mode != SUBMODULE]
        left_out = {blob for path, blob in entries if path not in own and scope.kind(path) == "hidden"}
        blobs = {blob for path, blob in entries if path not in own}
        blobs = blobs | set(outside.values()) if hidden == "include" else blobs - left_out
        content = to_line(receipt).encode() + b"\n"
        members = {RECEIPT: objects.store / RECEIPT, PACK: _pack(project, objects, receipt, blobs)}
        members[RECEIPT].write_bytes(content)
        if signer:
            name = f"{RECEIPT}{SUFFIXES[signer.form]}"
            members[name] = objects.store / name
            members[name].write_bytes(sign(signer, content))
        write_tar(file, dict(sorted(members.items(), reverse=True)))
    return receipt


def facts_of(project: Project, config: Config, files: Mapping[str, str]) -> dict[str, Any]:
    """The fields of a receipt that ledger and trees give; whoever checks a claim computes them again.

    ``files`` are the verifier's. Raises ValueError if they are not the pinned ones, or the ledger shows no gain.
    """
    standing, repository = project.standing, project.repository
    origin, baseline, best, ruler = standing.origin, standing.baseline, standing.best, project.ledger.pinned_ruler()
    settled = standing.settled
    if not (settled and origin and baseline and best and ruler):
        raise ValueError("its ledger has no settled gain")
    runs = project.ledger.standing_at(settled.seq - 1).settling[: 2 * len(settled.pairs)]
    pairs = measurements.pairs_in_turn(runs)
    computed = measurements.settle_pairs(config.manifest.metric, pairs, standing.noise.all_positive)
    if tuple((before.value, after.value) for before, after in pairs) != settled.pairs or computed != settled.result:
        raise ValueError("its settled difference is not that of its pairs")
    if not computed.is_sure or computed.difference <= 0:
        raise ValueError(settled.result.no_gain or f"the best is no better: {settled.why}")
    objects, before = repository.objects, measurements.origin_tree(project, config)
    pinned = {path: f"{entry.mode} {entry.blob}" for path, entry in objects.files(baseline.tree).items()}
    if measurements.digest_of_files(files) != ruler.files or not files.items() <= pinned.items():
        raise ValueError("scope or provider have changed since the verifier was pinned: its files are not proven")
    scope = structs.replace(config.scope, changed=frozenset(), known={})
    for path in (path for tree in (before, best.tree) for path in objects.changed_paths(baseline.tree, tree)):
        if scope.in_ruler(path):
            raise ValueError(f"{quote_path(path)} changed, which is outside scope.writable")
    commits = {"baseline": origin.commit, "best": best.commit, "tip": standing.tip, "pinned": baseline.commit}
    return {
        "project": repository.name,
        "commits": {**commits, "ledger": project.ledger.head},
        "trees": {
            "baseline": before,
            "best": best.tree,
            "tip": repository.tree_of(standing.tip),
            "pinned": baseline.tree,
        },
        "ruler": standing.ruler,
        "keys": ruler.keys,
        "settled": settled,
        "seeds": tuple((before.seed, after.seed) for before, after in pairs),
        "tries": standing.tries,
        "kept": standing.keeps,
        "sees": {command.name: command.sees for command in config.manifest.commands},
        "open_keeps": standing.open_keeps,
    }


def manifest_text(manifest: Manifest) -> str:
    """The tables that a measurement needs: none that says what it may do on this machine, or who proposes."""
    scope = structs.replace(manifest.scope, hidden_from=None)
    env, project = EnvironmentTable(verify=manifest.env.verify), ProjectTable(name=manifest.project.name)
    tables = {name: getattr(manifest, name) for name in ("metric", "verify", "setup", "guard", "holdout")}
    return tomli_w.dumps(to_tables(Manifest(version=1, project=project, scope=scope, env=env, **tables)))


def tool_versions(project: Project, config: Config, tree: str) -> dict[str, str]:
    """What the programs on PATH that the verifier's commands name answer to --version, in the sandbox.

    Without shells and coreutils, which do not measure; a program that gives no version is not compared.
    """
    manifest = config.manifest
    commands = [command.run for command in manifest.commands] + ([manifest.setup.run] if manifest.setup else [])
    words = (word for run in commands for word in parse_command(run).words())
    names = dict.fromkeys(word.text for word in words if word.role == "program" and "/" not in word.text)
    versions = {}
    verifier = project.verifier(config, project.standing.ruler, tree, {})
    project.places.run_folders["both"].mkdir(parents=True, exist_ok=True)
    root = verifier.bench.sync_to("candidate", tree)
    for name in names:
        if name in ("sh", "bash", "env"):
            continue
        command = VerifyCommand(run=(name, "--version"), name=name, sees="candidate", timeout=_VERSION_SECONDS)
        result = run_command(verifier, command, root, {}, HeadAndTail())
        lines = (result.stdout or result.stderr).decode("utf-8", "replace").strip().splitlines()
        if result.exit_code == 0 and lines and "coreutils" not in lines[0]:
            versions[name] = lines[0]
    return versions


def _write_hidden_from(objects: Objects, config: Config, is_written: bool) -> dict[str, str]:
    """Hashes of the files outside the repository, by path. Raises GoalseekError for one that is not as pinned."""
    folder, hashes = config.trees.hidden_folder, {}
    for path, entry in hidden_files.as_entries(config.trees.hidden_from, "").items() if folder else ():
        assert folder
        content = hidden_files.content_of(folder, path, entry)
        hashes[path] = objects.write_bytes(content) if is_written else objects.hash_of(content)
    return hashes


def _pack(project: Project, objects: Objects, receipt: Receipt, blobs: set[str]) -> Path:
    """The ledger, all candidates and the tip down to the first baseline, with their trees; and these blobs."""
    repository, first = project.repository, project.standing.first
    assert first
    ledger = list(walk_first_parents(repository.load_commit, receipt.commits["ledger"]))
    kept = walk_first_parents(repository.load_commit, receipt.commits["tip"], (first.commit,))
    names = {commit.name for commit in (*ledger, *kept)} | set(receipt.commits.values())
    for record in project.ledger.history.newest_iterations():
        others = (record.commit_hash, record.parent_commit_hash, record.rollback_commit_hash)
        names.update(filter(None, (*others, *(attempt.commit_hash for attempt in record.attempts))))
    starts = "".join(f"{name}\n" for name in (*sorted(names), *receipt.trees.values()))
    how = ("--objects", "--no-walk", "--filter=blob:none", "--no-object-names", "--stdin")
    listing = objects.git("rev-list", *how, stdin=starts.encode())
    rulers = (objects.tree(tree).get(RULER_FILE) for tree in {commit.tree for commit in ledger})
    blobs = blobs | {ruler.blob for ruler in rulers if ruler}
    listing += "".join(f"{blob}\n" for blob in sorted(blobs)).encode()
    name = objects.git("pack-objects", "-q", str(objects.store / "claim"), stdin=listing).decode().strip()
    return objects.store / f"claim-{name}.pack"
