"""A claim: the gain settled afresh, and all that somebody else needs to measure it again, as one tar."""

import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Literal

import tomli_w
from msgspec import Struct, structs

from goalseek.errors import BAD_FINDING, UNFIT, GoalseekError
from goalseek.evaluation import measurements
from goalseek.evaluation.settle import settle_on_request
from goalseek.git.as_user import Signature, sign, temporary_objects
from goalseek.git.objects import Objects
from goalseek.git.paths import SUBMODULE, quote_path
from goalseek.git.repository import walk_first_parents
from goalseek.ledger.artifacts import environment_facts
from goalseek.ledger.ledger import RULER_FILE
from goalseek.manifest.command_words import parse_command
from goalseek.manifest.exposure import exposures
from goalseek.manifest.loading import to_tables
from goalseek.manifest.tables import EnvironmentTable, Manifest, ProjectTable, VerifyCommand
from goalseek.measurement.host import kind_of_host
from goalseek.measurement.verifier import run_command
from goalseek.project.config import Config
from goalseek.project.project import Project
from goalseek.records import SettleRecord
from goalseek.sandbox.supervisor import HeadAndTail
from goalseek.values import to_line
from goalseek.workspace import hidden_files
from goalseek.workspace.answers import answer_notes_at_head

RECEIPT, PACK = "receipt.json", "objects.pack"
MEBI = 2**20
MOST_BYTES = {f"{RECEIPT}.sig": MEBI, f"{RECEIPT}.asc": MEBI, RECEIPT: 64 * MEBI, PACK: 4096 * MEBI}
"""The members of the tar, in their order."""
_VERSION_SECONDS = 20.0


class Receipt(Struct, frozen=True, kw_only=True):
    """The claim: the settled gain, and all that somebody else needs to measure it again.

    Commits are ``baseline``, ``best``, ``tip`` and ``ledger``, and ``pinned``, whose verifier measured; of ``trees``
    that of ``baseline`` is as it was measured. ``files`` are the verifier's, as "mode hash" by path; ``hidden_from``
    has hashes by path, of files outside the repository. ``own`` are goalseek's own files, on which no number depends,
    and which nobody gets. ``manifest`` is TOML: the tables that a measurement needs. ``seeds`` are those of the pairs.

    ``sees`` says which files each command finds, ``warnings`` which answers candidate code could read; ``open_keeps``
    counts the kept changes whose authors could read the hidden files. ``host``, ``sandbox`` and ``versions`` are of the
    settling; ``tools`` are programs that the verifier's commands name.
    """

    format: Literal[1] = 1
    project: str
    folder: str
    made_at: str
    hidden: Literal["digest", "include"]
    object_format: Literal["sha1", "sha256"]
    commits: dict[str, str]
    trees: dict[str, str]
    ruler: str
    keys: dict[str, Any]
    files: dict[str, str]
    hidden_from: dict[str, str]
    own: tuple[str, ...]
    manifest: str
    settled: SettleRecord
    seeds: tuple[tuple[int, int], ...]
    tries: int
    kept: int
    sees: dict[str, str]
    open_keeps: int
    warnings: tuple[str, ...]
    host: str
    sandbox: str
    versions: dict[str, str]
    tools: dict[str, str]


def refuse_if(is_wrong: object, why: str) -> None:
    """Raises ValueError: who reads the claim, or makes it, says what is refused."""
    if is_wrong:
        raise ValueError(why)


def make_claim(project: Project, file: BinaryIO, with_hidden: bool) -> tuple[Receipt, Signature | None]:
    """Settle, and write the tar. Raises GoalseekError if that shows no gain, or nobody could check it."""
    config, repository = project.config(), project.repository
    sign(repository.top, b"")  # a key that cannot sign is no surprise after hours of measurements
    settle_on_request(project, config, least=2)
    assert project.standing.baseline
    pinned, scope = project.standing.baseline.tree, config.scope
    files = measurements.ruler_files(project, config, pinned)
    try:
        facts = facts_of(project, config, files)
    except ValueError as error:
        raise GoalseekError(f"this cannot be claimed: {error}", "see: goalseek help claim", BAD_FINDING) from None
    notes = answer_notes_at_head(project.loaded, repository.location)
    repository.objects.bring_back()
    with temporary_objects(repository) as objects:
        folder = config.trees.hidden_folder or project.folder
        hash_of = objects.write_bytes if with_hidden else objects.hash_of
        listing = hidden_files.as_entries(config.trees.hidden_from, "").items()
        outside = {path: hash_of(hidden_files.content_of(folder, path, entry)) for path, entry in listing}
        files_of_trees = (item for tree in facts["trees"].values() for item in objects.files(tree).items())
        entries = {(path, entry.blob) for path, entry in files_of_trees if entry.mode != SUBMODULE}
        secret = {path for path, _ in entries if scope.kind(path) == "hidden"}
        own = {path for path in secret if scope.is_own_file(path)}
        receipt = Receipt(
            **facts,
            folder=scope.prefix,
            made_at=project.ledger.now(),
            hidden="include" if with_hidden else "digest",
            object_format=repository.location.object_format,  # type: ignore[arg-type]
            files=files,
            hidden_from=outside,
            own=tuple(sorted(own)),
            manifest=manifest_text(config.manifest),
            warnings=tuple(map(str, (*exposures(config.manifest), *notes))),
            host=kind_of_host(),
            sandbox=project.confines.level.name,
            versions=environment_facts(),
            tools=tool_versions(project, config, pinned),
        )
        blobs = {blob for path, blob in entries if path not in own}
        if with_hidden:
            blobs.update(outside.values())
        else:  # nor any other file with the same content
            blobs -= {blob for path, blob in entries if path in secret - own}
        content = to_line(receipt).encode() + b"\n"
        (objects.store / RECEIPT).write_bytes(content)
        if signature := sign(repository.top, content):
            (objects.store / f"{RECEIPT}{signature.suffix}").write_bytes(signature.content)
        _pack(project, objects, receipt, blobs).rename(objects.store / PACK)
        with tarfile.open(fileobj=file, mode="w|", format=tarfile.USTAR_FORMAT) as tar:
            for name, most in MOST_BYTES.items():
                if (path := objects.store / name).exists():
                    head = tarfile.TarInfo(name)
                    head.size = path.stat().st_size
                    if head.size > most:
                        raise GoalseekError(f"{name} would have {head.size} bytes, more than a claim may", "", UNFIT)
                    with path.open("rb") as member:
                        tar.addfile(head, member)
    return receipt, signature


def facts_of(project: Project, config: Config, files: Mapping[str, str]) -> dict[str, Any]:
    """The fields of a receipt that ledger and trees give; whoever checks a claim computes them again.

    ``files`` are the verifier's. Raises ValueError if they are not the pinned ones, or the ledger shows no gain.
    """
    standing, repository, ruler = project.standing, project.repository, project.ledger.pinned_ruler()
    origin, baseline, best, settled = standing.origin, standing.baseline, standing.best, standing.settled
    if not (settled and origin and baseline and best and ruler):
        raise ValueError("its ledger has no settled gain")
    runs = project.ledger.standing_at(settled.seq - 1).settling[: 2 * len(settled.pairs)]
    pairs = measurements.pairs_in_turn(runs)
    computed = measurements.settle_pairs(config.manifest.metric, pairs, standing.noise.all_positive)
    is_theirs = computed == settled.result and settled.pairs == tuple((a.value, b.value) for a, b in pairs)
    refuse_if(not is_theirs, "its settled difference is not that of its pairs")
    is_gain = computed.is_sure and computed.difference > 0
    refuse_if(not is_gain, computed.no_gain or f"the best is no better: {settled.why}")
    objects, before = repository.objects, measurements.origin_tree(project, config)
    pinned = {path: f"{entry.mode} {entry.blob}" for path, entry in objects.files(baseline.tree).items()}
    if measurements.digest_of_files(files) != ruler.files or not files.items() <= pinned.items():
        raise ValueError("scope or provider have changed since the verifier was pinned: its files are not proven")
    scope = structs.replace(config.scope, changed=frozenset(), known={})
    for path in filter(scope.in_ruler, objects.changed_paths(baseline.tree, best.tree)):
        raise ValueError(f"{quote_path(path)} changed, which is outside scope.writable")
    commits = {"baseline": origin.commit, "best": best.commit, "tip": standing.tip, "pinned": baseline.commit}
    tip = repository.tree_of(standing.tip)
    return {
        "project": repository.name,
        "commits": {**commits, "ledger": project.ledger.head},
        "trees": {"baseline": before, "best": best.tree, "tip": tip, "pinned": baseline.tree},
        "ruler": standing.ruler,
        "keys": ruler.keys,
        "settled": settled,
        "seeds": tuple((first.seed, second.seed) for first, second in pairs),
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
    runs = [command.run for command in (*config.manifest.commands, config.manifest.setup) if command]
    words = (word for run in runs for word in parse_command(run).words())
    names = {word.text for word in words if word.role == "program" and "/" not in word.text} - {"sh", "bash", "env"}
    verifier, versions = project.verifier(config, project.standing.ruler, tree, {}), {}
    project.places.run_folders["both"].mkdir(parents=True, exist_ok=True)
    root = verifier.bench.sync_to("candidate", tree)
    for name in sorted(names):
        command = VerifyCommand(run=(name, "--version"), name=name, sees="candidate", timeout=_VERSION_SECONDS)
        result = run_command(verifier, command, root, {}, HeadAndTail())
        lines = (result.stdout or result.stderr).decode("utf-8", "replace").strip().splitlines()
        if result.exit_code == 0 and lines and "coreutils" not in lines[0]:
            versions[name] = lines[0]
    return versions


def _pack(project: Project, objects: Objects, receipt: Receipt, blobs: set[str]) -> Path:
    """The ledger, all candidates and the tip down to the first baseline, with their trees; and these blobs."""
    load, first = project.repository.load_commit, project.standing.first
    assert first
    ledger = list(walk_first_parents(load, receipt.commits["ledger"]))
    kept = walk_first_parents(load, receipt.commits["tip"], (first.commit,))
    names = {commit.name for commit in (*ledger, *kept)}.union(receipt.commits.values(), receipt.trees.values())
    for record in project.ledger.history.newest_iterations():
        others = (record.commit_hash, record.parent_commit_hash, record.rollback_commit_hash)
        names.update(filter(None, (*others, *(attempt.commit_hash for attempt in record.attempts))))
    how = ("--objects", "--no-walk", "--filter=blob:none", "--no-object-names", "--stdin")
    listing = objects.git("rev-list", *how, stdin="\n".join(sorted(names)).encode())
    rulers = (objects.tree(tree).get(RULER_FILE) for tree in {commit.tree for commit in ledger})
    listing += "\n".join(sorted(blobs.union(ruler.blob for ruler in rulers if ruler))).encode()
    name = objects.git("pack-objects", "-q", str(objects.store / "claim"), stdin=listing).decode().strip()
    return objects.store / f"claim-{name}.pack"
