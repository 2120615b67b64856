"""The check of a claim: a stranger's tar, imported into a throw-away repository and measured again in the sandbox."""

import contextlib
import functools
import math
import os
import re
import shutil
import tarfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct, structs

from goalseek.disk import create, list_files, read_regular
from goalseek.errors import UNFIT, GitFailed, GoalseekError
from goalseek.evaluation import claim, measurements
from goalseek.evaluation.compare import Pair, broken_guards, measure_pairs
from goalseek.git.as_user import check_signature, temporary_folder
from goalseek.git.command import git
from goalseek.git.location import Location, locate
from goalseek.git.objects import Objects
from goalseek.git.paths import FOLDER, SUBMODULE, looks_like_git, normalize_path, quote_path
from goalseek.git.repository import RefMove, Repository
from goalseek.humanize import abbreviate, pluralize
from goalseek.ledger.audit import audit
from goalseek.manifest.loading import FILE_NAME, ManifestFile, make_log_folders
from goalseek.manifest.tables import TIME_SOURCES, Manifest, Metric
from goalseek.manifest.validation import validate
from goalseek.measurement.host import kind_of_host
from goalseek.project.activity import Observer
from goalseek.project.config import Config
from goalseek.project.project import Project
from goalseek.records import SettledDifference, SettleRecord
from goalseek.sandbox.level import installation_hint, probe
from goalseek.statistics.intervals import settle
from goalseek.values import StopReason, from_line
from goalseek.workspace.places import CachePaths, cache_folder

Answer = Literal["agrees", "disagrees", "cannot be compared"]
_FOLDER = ".verify-"
_MOST_UNPACKED = 16 * 1024 * claim.MEBI  # bytes of one tree
_MOST_FILES = 1_000_000  # of one tree
_OBJECT_MOST = "2g"  # memory for one object of the pack


class Verification(Struct, frozen=True):
    """``changed`` are the paths in which baseline and best differ."""

    answer: Answer
    why: str
    signature: str
    seals: str
    sandbox: str
    changed: tuple[str, ...]
    claimed: SettledDifference
    measured: SettledDifference | None
    receipt: claim.Receipt


class _Imported(Struct, frozen=True):
    """As imported; ``trees`` are those of baseline, best and pinned verifier, without goalseek's own files."""

    receipt: claim.Receipt
    project: Project
    config: Config
    trees: tuple[str, str, str]


def verify_claim(
    path: Path,
    folder: Path,
    watch: Observer,
    signers: Path | None = None,
    hidden_from: Path | None = None,
    is_trusted: bool = False,
    pairs: int | None = None,
) -> Verification:
    """Check and measure a claim; ``folder`` may be in a clone that has its hidden files, or its secret.

    Raises GoalseekError if the claim is refused: it is damaged, edited, or asks for what a stranger may not.
    """
    clone: Location | None = None
    with contextlib.suppress(GoalseekError):
        clone = locate(folder)
    cache = cache_folder().resolve()
    cache.mkdir(parents=True, exist_ok=True, mode=0o700)
    with contextlib.ExitStack() as stack:
        home = stack.enter_context(temporary_folder(cache, _FOLDER))
        with _refusing():
            read_tar(path, home)
            receipt = from_line(claim.Receipt, (home / claim.RECEIPT).read_bytes())
            signature = check_signature(home / claim.RECEIPT, signers)
            loaded, repository = _import_claim(receipt, home)
            stack.callback(repository.close)
            if clone and (secret := clone.own(receipt.project) / "secret").exists():  # its maker can check the seals
                shutil.copy(secret, repository.own)
            places = CachePaths(home / f"trees-{home.name.removeprefix(_FOLDER)}", receipt.folder)
            project = stack.enter_context(contextlib.closing(Project(loaded, repository, places, watch, None)))
            audited = audit(loaded, repository)
            for deviation in audited.deviations:
                raise ValueError(f"its ledger contradicts itself: {deviation.where}: {deviation.what}")
            imported = _checked(receipt, project, home)
            changed = repository.objects.changed_paths(*imported.trees[:2])
        if not is_trusted:
            _refuse_unsafe(loaded.manifest)
        claimed, found = receipt.settled.result, None
        try:
            _add_hidden_files(imported, hidden_from, clone)
            _refuse_other_machine(imported)
            baseline, best, pinned = imported.trees
            target = measurements.pinned_target(project.standing, imported.config, baseline, name="the baseline")
            before = structs.replace(target, baseline_tree=pinned, baseline_seconds={})
            after = structs.replace(before, tree=best, bench="b", name="the best")
            count = pairs or len(receipt.settled.pairs)
            watch.on_note(f"measuring {pluralize(count, 'pair')} of baseline and best in turn")
            measured = list(measure_pairs(project, before, after, count))
            claimed, found = _settle_again(receipt.settled, loaded.manifest.metric, measured)
            answer, why = _judge(receipt.settled, loaded.manifest, measured)
        except GoalseekError as error:
            if error.stop_reason != StopReason.BASELINE_FAILED:
                raise
            answer, why = "cannot be compared", error.message
        names, level = tuple(map(quote_path, changed)), project.confines.level.name
        seals = f"{pluralize(audited.records, 'record')}, {audited.seals}"
        return Verification(answer, why, signature, seals, level, names, claimed, found, receipt)


@contextlib.contextmanager
def _refusing() -> Iterator[None]:
    """Whatever a stranger's bytes raise is no bug, and no wrong use: the claim is refused."""
    try:
        yield
    except OSError:  # this machine's: a full disk, say
        raise
    except Exception as error:
        is_told = isinstance(error, GitFailed | GoalseekError | ValueError)
        why = str(error) if is_told else f"{type(error).__name__}: {error}"
        hint = getattr(error, "hint", "") or "ask for the claim once more"
        raise GoalseekError(f"the claim is refused: {why}", hint, UNFIT) from error


def read_tar(path: Path, folder: Path) -> None:
    """Write the members of a claim into the folder. Raises ValueError for any other member, before it is written.

    Headers are read one by one: ``tarfile`` would read a long name of a gigabyte into memory.
    """
    with path.open("rb") as file:
        while (block := file.read(tarfile.BLOCKSIZE)).strip(b"\0"):
            try:
                head = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
            except tarfile.HeaderError:
                raise ValueError("it is no tar, or a damaged one") from None
            name, size = quote_path(head.name), head.size
            claim.refuse_if(head.name not in claim.MOST_BYTES, f"the tar has {name}, which is no part of a claim")
            claim.refuse_if(head.type != tarfile.REGTYPE, f"{name} is no regular file")
            most = claim.MOST_BYTES[head.name]
            claim.refuse_if(not 0 <= size <= most, f"{name} would have {size} bytes; {most} are allowed")
            claim.refuse_if((folder / head.name).exists(), f"the tar has {name} twice")
            with (folder / head.name).open("xb") as member:
                for left in range(size, 0, -claim.MEBI):
                    member.write(file.read(min(left, claim.MEBI)))
                claim.refuse_if(member.tell() != size, f"the tar ends within {name}")
            file.seek(-size % tarfile.BLOCKSIZE, os.SEEK_CUR)
    for name in (claim.RECEIPT, claim.PACK):
        claim.refuse_if(not (folder / name).exists(), f"the tar lacks {name}")


def _import_claim(receipt: claim.Receipt, home: Path) -> tuple[ManifestFile, Repository]:
    for name in (*receipt.commits.values(), *receipt.trees.values(), *receipt.hidden_from.values()):
        claim.refuse_if(not re.fullmatch("[0-9a-f]{40,64}", name), f"{quote_path(name)} is no hash")
    is_normal = not receipt.folder or receipt.folder == f"{normalize_path(receipt.folder)}/"
    claim.refuse_if(not is_normal, f"its folder is {receipt.folder!r}")
    top = home / "repository"
    git("init", "--quiet", f"--object-format={receipt.object_format}", "--template=", str(top))
    index_pack((home / claim.PACK).rename(top / ".git/objects/pack/pack-claim.pack"), top / ".git")
    path = top / receipt.folder / FILE_NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(receipt.manifest, "utf-8")
    # What it may do on this machine is no part of a measurement, and in no manifest that claim writes.
    manifest = validate(path, receipt.manifest, tomllib.loads(receipt.manifest))
    is_claims = claim.manifest_text(manifest) == receipt.manifest and manifest.project.name == receipt.project
    claim.refuse_if(not is_claims, f"its manifest is not as goalseek claim writes it; made with {receipt.versions}")
    repository = Repository(locate(top), manifest.project.name)
    refuse_trees(repository.objects)
    refs = ((repository.tip_ref, "tip"), (repository.branch_ref, "tip"), (repository.ledger_ref, "ledger"))
    repository.move([RefMove(ref, None, receipt.commits[name]) for ref, name in refs])
    loaded = ManifestFile(path, manifest, receipt.manifest)
    make_log_folders(loaded)
    return loaded, repository


def index_pack(pack: Path, git_dir: Path) -> None:
    """Make the objects readable, which stay where they are. Raises GitFailed for an object that fsck refuses."""
    limit = {"GIT_ALLOC_LIMIT": _OBJECT_MOST}
    git("index-pack", "--fsck-objects", str(pack), git_dir=git_dir, folder=git_dir, variables=limit)


def refuse_trees(objects: Objects) -> None:
    """Raises ValueError if any tree names git's folder, or would fill memory or disk; each is looked at once.

    RecursionError for one that is too deep.
    """
    listing = objects.git("cat-file", "--batch-all-objects", "--batch-check=%(objecttype) %(objectname) %(objectsize)")
    rows = [line.split(" ") for line in listing.decode().splitlines()]
    sizes = {name: int(size) for kind, name, size in rows if kind == "blob"}

    @functools.cache
    def measure(tree: str) -> tuple[int, int]:
        """Files and bytes."""
        files = size = 0
        for name, entry in objects.tree(tree).items():
            if looks_like_git(name):
                raise ValueError(f"the tree {tree} has {quote_path(name)}")
            more = measure(entry.blob) if entry.mode == FOLDER else (1, sizes.get(entry.blob, 0))
            files, size = files + more[0], size + more[1]
        is_huge = files > _MOST_FILES or size > _MOST_UNPACKED
        claim.refuse_if(is_huge, f"the tree {tree} has {files} files of {size} bytes together")
        return files, size

    for kind, name, _ in rows:
        if kind == "tree":
            measure(name)


def _checked(receipt: claim.Receipt, project: Project, home: Path) -> _Imported:
    """Raises ValueError if the receipt is not what ledger and trees say."""
    objects, config = project.repository.objects, project.config()
    facts = claim.facts_of(project, config, receipt.files)
    is_pinned = claim.manifest_text(config.manifest) == receipt.manifest
    claim.refuse_if(not is_pinned, "its manifest has another verifier than its ledger")
    edited = [name for name, value in facts.items() if getattr(receipt, name) != value]
    claim.refuse_if(edited, f"its receipt is not what its ledger and trees say: {abbreviate(edited)}")
    outside = {normalize_path(item.path) for item in config.trees.hidden_from}
    are_pinned = outside == set(receipt.hidden_from) and outside.isdisjoint(receipt.files)
    claim.refuse_if(not are_pinned, "the files of its verifier are not those that its ledger pins")
    named = sorted(map(quote_path, set(receipt.files).intersection(receipt.own)))
    claim.refuse_if(named, f"{abbreviate(named)} is a file of the verifier, and not goalseek's own")
    own = dict.fromkeys(receipt.own)
    baseline, best, verifier = (objects.splice(receipt.trees[name], own) for name in ("baseline", "best", "pinned"))
    config = structs.replace(config, trees=structs.replace(config.trees, hidden_folder=home / "hidden"))
    return _Imported(receipt, project, config, (baseline, best, verifier))


def _refuse_unsafe(manifest: Manifest) -> None:
    """Raises GoalseekError without a sandbox, and for what only trusted code may have."""
    asks = [f"the network for {command.name}" for command in manifest.verify if command.network]
    asks += ["the network for setup"] if manifest.setup and manifest.setup.network else []
    asks += [f"your variable {name}" for name in manifest.env.verify.pass_]
    asks += [f"your variables for {name}" for name, text in manifest.env.verify.set.items() if "${" in text]
    asks += [f"your {path}" for path in manifest.scope.share]
    level = probe("auto")
    if level.name == "none":
        message = f"there is no sandbox for a stranger's code: {'; '.join(level.reason)}"
        hint = f"{installation_hint('bubblewrap')}; or, if you trust it with your account: --trust"
        raise GoalseekError(message, hint, StopReason.SANDBOX)
    if asks:
        hint = "if you trust it with that: --trust"
        raise GoalseekError(f"the claim's verifier asks for {abbreviate(asks)}", hint, StopReason.SANDBOX)


def _add_hidden_files(imported: _Imported, folder: Path | None, clone: Location | None) -> None:
    """Store the hidden blobs that the pack lacks, and link shared folders. Raises GoalseekError if one is missing."""
    receipt, trees, objects = imported.receipt, imported.config.trees, imported.project.repository.objects
    assert trees.hidden_folder
    if clone and clone.object_format == objects.object_format:
        (objects.store / "info" / "alternates").write_bytes(os.fsencode(clone.common_dir / "objects") + b"\n")
        objects.close()  # those that start next know it
    entries = [item for tree in imported.trees for item in objects.files(tree).items() if item[1].mode != SUBMODULE]
    blobs = {entry.blob: path for path, entry in entries} | {blob: path for path, blob in receipt.hidden_from.items()}
    missing = {blob: path for blob, path in blobs.items() if not objects.has(blob)}
    if folder and missing:
        for path, _ in list_files(folder, lambda path: path.startswith(".git/"), is_ours=False):
            try:
                content = read_regular(folder, path, is_ours=False)
            except OSError:  # no regular file, or one that cannot be read
                continue
            if missing.pop(objects.hash_of(content), None):
                objects.write_bytes(content)
    if missing:
        names = abbreviate(sorted(map(quote_path, missing.values())))
        raise _incomparable(f"hidden files are missing: {names}; --hidden-from DIR takes them from your copies")
    for item in trees.hidden_from:
        target = trees.hidden_folder / item.path
        with create(target, 0o755 if item.kind == "program" else 0o644) as file:
            file.write(objects.read(receipt.hidden_from[item.path]))
        os.utime(target, ns=(item.time, item.time))
    for name in imported.config.manifest.scope.share:
        source = (folder or (clone.top / receipt.folder if clone else Path("/nowhere"))) / name
        if not source.exists():
            raise _incomparable(f"scope.share: {name} is no part of the claim; --hidden-from DIR takes DIR/{name}")
        target = imported.project.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(source.resolve())


def _incomparable(why: str) -> GoalseekError:
    return GoalseekError(why, end=StopReason.BASELINE_FAILED)  # as if a tree has no number here


def _refuse_other_machine(imported: _Imported) -> None:
    """Raises GoalseekError if a time is measured on another kind of host, or a tool has another version."""
    manifest, receipt = imported.config.manifest, imported.receipt
    times = [reading.name for reading in (manifest.metric, *manifest.guard) if reading.source in TIME_SOURCES]
    if times and receipt.host != (here := kind_of_host()):
        raise _incomparable(f"{abbreviate(times)} is a time, and this host is {here}, not {receipt.host}")
    was, now = receipt.tools, claim.tool_versions(imported.project, imported.config, imported.trees[0])
    names = [name for name in {**was, **now} if was.get(name) != now.get(name)]
    other = [f"{name} was {was.get(name, 'not there')}, here {now.get(name, 'not there')}" for name in names]
    if other:
        raise _incomparable(f"another version of a tool that the verifier names: {abbreviate(other)}")


def _settle_again(settled: SettleRecord, metric: Metric, pairs: list[Pair]) -> tuple[SettledDifference, ...]:
    """The claimed and the measured difference, both as shares of the baseline, or both in the metric's units."""
    found = measurements.settle_pairs(metric, pairs, settled.in_percent)
    if settled.in_percent and not found.in_percent:
        return settle(metric.direction, settled.pairs, False, metric.unit), found
    return settled.result, found


def _judge(settled: SettleRecord, manifest: Manifest, pairs: list[Pair]) -> tuple[Answer, str]:
    claimed, found = _settle_again(settled, manifest.metric, pairs)
    if broken := broken_guards(manifest, pairs[-1]):
        return "disagrees", "; ".join(broken)
    if len(set(settled.pairs)) == 1 and claimed.cases is None:
        values = {(before.value, after.value) for before, after in pairs}
        wanted = (claimed.before, claimed.after)
        if all(math.isclose(*each, rel_tol=1e-9) for pair in values for each in zip(pair, wanted, strict=True)):
            return "agrees", "the numbers are the claimed ones"
        return "disagrees", "the claimed numbers repeat exactly, and these are others"
    if claimed.interval is None or found.interval is None:
        return "cannot be compared", "one of the two has no interval"
    if not found.is_sure or found.difference <= 0:
        return "disagrees", found.no_gain or "the best is worse here"
    if claimed.interval[0] > found.interval[1]:
        return "disagrees", "the best is better here too, but by less than is claimed: the two intervals do not overlap"
    is_more = found.interval[0] > claimed.interval[1]
    how = "by more than is claimed" if is_more else "and the two intervals overlap"
    return "agrees", f"the best is better here too, {how}"
