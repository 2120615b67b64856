"""The check of a claim: a stranger's tar, imported into a throw-away repository and measured again in the sandbox."""

import contextlib
import math
import os
import re
import shutil
import stat
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct, structs

from goalseek.disk import create, list_files
from goalseek.errors import GitFailed, GoalseekError
from goalseek.evaluation import measurements
from goalseek.evaluation.claim import facts_of, manifest_text, tool_versions
from goalseek.evaluation.compare import Pair, broken_guards, measure_pairs
from goalseek.git.as_user import temporary_folder
from goalseek.git.command import git
from goalseek.git.location import Location, locate
from goalseek.git.objects import ObjectsFailed
from goalseek.git.paths import SUBMODULE, normalize_path, quote_path
from goalseek.git.repository import RefMove, Repository
from goalseek.git.signing import SUFFIXES, check_signature
from goalseek.host import kind_of_host
from goalseek.humanize import abbreviate, format_number, pluralize
from goalseek.ledger.audit import audit
from goalseek.ledger.ledger import read_ruler
from goalseek.ledger.receipt import PACK, RECEIPT, Receipt, Refused, index_pack, read_tar, refuse_trees
from goalseek.manifest.loading import FILE_NAME, ManifestFile, make_log_folders
from goalseek.manifest.tables import TIME_SOURCES, Manifest, Metric
from goalseek.manifest.validation import validate
from goalseek.measurement.ruler import differing_keys
from goalseek.project.activity import Observer
from goalseek.project.config import Config
from goalseek.project.project import Project
from goalseek.records import SettledDifference
from goalseek.sandbox.level import installation_hint, probe
from goalseek.statistics.intervals import settle
from goalseek.values import StopReason, from_line
from goalseek.workspace.places import CachePaths, cache_folder

Answer = Literal["agrees", "disagrees", "cannot be compared"]
_FOLDER = ".verify-"


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
    receipt: Receipt


class _Incomparable(Exception):
    """The text says why."""


def verify_claim(
    path: Path,
    folder: Path,
    *,
    signers: Path | None,
    hidden_from: Path | None,
    is_trusted: bool,
    pairs: int | None,
    watch: Observer,
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
            content = (home / RECEIPT).read_bytes()
            receipt = from_line(Receipt, content)
        signature = _check_signature(home, content, signers)
        with _refusing():
            loaded, repository = _import_claim(receipt, home)
        stack.callback(repository.close)
        _refuse_unsafe(loaded.manifest, is_trusted)
        with _refusing():
            if clone and (secret := clone.own(receipt.project) / "secret").exists():  # its maker can check the seals
                shutil.copy(secret, repository.own)
            places = CachePaths(home / f"trees-{home.name.removeprefix(_FOLDER)}", receipt.folder)
            project = stack.enter_context(contextlib.closing(Project(loaded, repository, places, watch, None)))
            audited = audit(loaded, repository)
            for deviation in audited.deviations:
                raise Refused(f"its ledger contradicts itself: {deviation.where}: {deviation.what}")
            config, trees = _checked_config(project, receipt, home)
            changed = project.repository.objects.changed_paths(trees[0], trees[1])
        claimed, found = receipt.settled.result, None
        try:
            _add_hidden_files(project, config, receipt, trees, hidden_from, clone)
            _refuse_other_machine(project, config, receipt, trees[0])
            measured = _measure(project, config, trees, pairs or len(receipt.settled.pairs), watch)
            claimed, found = _settle_again(receipt, config.manifest.metric, measured)
            answer, why = _judge(receipt, config.manifest, measured, claimed, found)
        except _Incomparable as error:
            answer, why = "cannot be compared", str(error)
        names, level = tuple(map(quote_path, changed)), project.confines.level.name
        seals = f"{pluralize(audited.records, 'record')}, {audited.seals}"
        return Verification(answer, why, signature, seals, level, names, claimed, found, receipt)


@contextlib.contextmanager
def _refusing() -> Iterator[None]:
    """What a stranger's bytes do not fit is no bug, and no wrong use."""
    try:
        yield
    except Refused:
        raise
    except GoalseekError as error:
        raise Refused(error.message) from error
    except (GitFailed, ObjectsFailed, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise Refused(str(error) or type(error).__name__) from error
    except (AttributeError, AssertionError, RecursionError) as error:
        raise Refused(f"it cannot be read: {type(error).__name__}: {error}") from error


def _check_signature(home: Path, content: bytes, signers: Path | None) -> str:
    for form, suffix in SUFFIXES.items():
        if (path := home / f"{RECEIPT}{suffix}").exists():
            return check_signature(form, content, path, signers)
    if signers:
        raise Refused("nobody signed it", "leave --signers out to check it all the same")
    return "unsigned"


def _import_claim(receipt: Receipt, home: Path) -> tuple[ManifestFile, Repository]:
    hashes = (*receipt.commits.values(), *receipt.trees.values(), *receipt.hidden_from.values())
    if odd := [name for name in hashes if not re.fullmatch("[0-9a-f]{40,64}", name)]:
        raise Refused(f"{quote_path(odd[0])} is no hash")
    below = normalize_path(receipt.folder or ".")
    if receipt.folder != ("" if below == "." else f"{below}/"):
        raise Refused(f"its folder is {receipt.folder!r}")
    top = home / "repository"
    git("init", "--quiet", f"--object-format={receipt.object_format}", "--template=", str(top))
    pack = top / ".git" / "objects" / "pack" / "pack-claim.pack"
    (home / PACK).rename(pack)
    index_pack(pack, top / ".git")
    path = top / receipt.folder / FILE_NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(receipt.manifest, "utf-8")
    # What it may do on this machine is no part of a measurement, and in no manifest that claim writes.
    manifest = validate(path, receipt.manifest, tomllib.loads(receipt.manifest))
    if manifest_text(manifest) != receipt.manifest or manifest.project.name != receipt.project:
        made_by = receipt.versions.get("goalseek", "another version")
        raise Refused("its manifest is not as goalseek claim writes it", f"goalseek {made_by} made it")
    repository = Repository(locate(top), manifest.project.name)
    refuse_trees(repository.objects)
    refs = ((repository.tip_ref, "tip"), (repository.branch_ref, "tip"), (repository.ledger_ref, "ledger"))
    repository.move([RefMove(ref, None, receipt.commits[name]) for ref, name in refs])
    loaded = ManifestFile(path, manifest, receipt.manifest)
    make_log_folders(loaded)
    return loaded, repository


def _refuse_unsafe(manifest: Manifest, is_trusted: bool) -> None:
    """Raises GoalseekError without a sandbox, and for what a stranger's code may have only if it is trusted."""
    asks = [f"the network for {command.name}" for command in manifest.verify if command.network]
    asks += ["the network for setup"] if manifest.setup and manifest.setup.network else []
    asks += [f"your variable {name}" for name in manifest.env.verify.pass_]
    asks += [f"your variables for {name}" for name, text in manifest.env.verify.set.items() if "${" in text]
    asks += [f"your {path}" for path in manifest.scope.share]
    level = probe("auto")
    if is_trusted:
        return
    if level.name == "none":
        message = f"there is no sandbox for a stranger's code: {'; '.join(level.reason)}"
        hint = f"{installation_hint('bubblewrap')}; or, if you trust it with your account: --trust"
        raise GoalseekError(message, hint, StopReason.SANDBOX)
    if asks:
        hint = "if you trust it with that: --trust"
        raise GoalseekError(f"the claim's verifier asks for {abbreviate(asks)}", hint, StopReason.SANDBOX)


def _checked_config(project: Project, receipt: Receipt, home: Path) -> tuple[Config, tuple[str, str, str]]:
    """The pinned configuration, and the trees of baseline, best and pinned verifier without goalseek's own files.

    Raises GoalseekError or ValueError if the receipt is not what ledger and trees say.
    """
    objects, manifest = project.repository.objects, project.loaded.manifest
    ruler = read_ruler(objects, project.repository.tree_of(receipt.commits["ledger"]))
    if ruler is None:
        raise Refused("its ledger pins no verifier")
    scope = structs.replace(manifest.scope, hidden_from=ruler.keys["scope"].get("hidden_from"))
    if keys := differing_keys(structs.replace(manifest, scope=scope), ruler):
        raise Refused(f"its manifest has another verifier than its ledger: {abbreviate(keys)}")
    config = project.config()
    facts = facts_of(project, config, receipt.files)
    if edited := [name for name, value in facts.items() if getattr(receipt, name) != value]:
        raise Refused(f"its receipt is not what its ledger and trees say: {abbreviate(edited)}")
    outside = {normalize_path(item.path) for item in ruler.hidden_from}
    if ruler.digest != receipt.ruler or outside != set(receipt.hidden_from) or not outside.isdisjoint(receipt.files):
        raise Refused("the files of its verifier are not those that its ledger pins")
    if named := set(receipt.files).intersection(receipt.own):
        raise Refused(f"{quote_path(min(named))} is a file of the verifier, and not goalseek's own")
    own = dict.fromkeys(receipt.own)
    baseline, best, verifier = (objects.splice(receipt.trees[name], own) for name in ("baseline", "best", "pinned"))
    config = structs.replace(config, trees=structs.replace(config.trees, hidden_folder=home / "hidden"))
    return config, (baseline, best, verifier)


def _add_hidden_files(
    project: Project,
    config: Config,
    receipt: Receipt,
    trees: tuple[str, ...],
    folder: Path | None,
    clone: Location | None,
) -> None:
    """Store the hidden blobs that the pack lacks, and link shared folders. Raises _Incomparable if one is missing."""
    objects = project.repository.objects
    entries = [item for tree in trees for item in objects.files(tree).items() if item[1].mode != SUBMODULE]
    blobs = {entry.blob: path for path, entry in entries} | {blob: path for path, blob in receipt.hidden_from.items()}
    if clone and clone.object_format == objects.object_format:
        (objects.store / "info" / "alternates").write_bytes(os.fsencode(clone.common_dir / "objects") + b"\n")
        objects.close()  # those that start next know it
    missing = {blob: path for blob, path in blobs.items() if not objects.has(blob)}
    if folder and missing:
        files = list_files(folder, lambda path: path.startswith(".git/"), is_ours=False)
        paths = [str(folder / path) for path, status in files if stat.S_ISREG(status.st_mode) and "\n" not in path]
        paths = [path for path in paths if os.access(path, os.R_OK)]
        hashing = ("hash-object", "--no-filters", "--stdin-paths")
        hashes = objects.git(*hashing, stdin=_as_lines(paths)).decode().split()
        found = [path for path, blob in zip(paths, hashes, strict=True) if blob in missing]
        for blob in objects.git(*hashing, "-w", stdin=_as_lines(found)).decode().split():
            missing.pop(blob, None)
    if missing:
        names = abbreviate(sorted(map(quote_path, missing.values())))
        raise _Incomparable(f"hidden files are missing: {names}; --hidden-from DIR takes them from your copies")
    ruler = project.ledger.pinned_ruler()
    for item in ruler.hidden_from if ruler else ():
        assert config.trees.hidden_folder
        target = config.trees.hidden_folder / item.path
        with create(target, 0o755 if item.kind == "program" else 0o644) as file:
            file.write(objects.read(receipt.hidden_from[item.path]))
        os.utime(target, ns=(item.time, item.time))
    for name in config.manifest.scope.share:
        source = (folder or (clone.top / receipt.folder if clone else Path("/nowhere"))) / name
        if not source.exists():
            raise _Incomparable(f"scope.share: {name} is no part of the claim; --hidden-from DIR takes DIR/{name}")
        target = project.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(source.resolve())


def _as_lines(paths: list[str]) -> bytes:
    return b"".join(os.fsencode(path) + b"\n" for path in paths)


def _refuse_other_machine(project: Project, config: Config, receipt: Receipt, tree: str) -> None:
    """Raises _Incomparable if a time is measured on another kind of host, or a tool has another version."""
    manifest = config.manifest
    times = [reading.name for reading in (manifest.metric, *manifest.guard) if reading.source in TIME_SOURCES]
    if times and receipt.host != (here := kind_of_host()):
        raise _Incomparable(f"{abbreviate(times)} is a time, and this host is {here}, not {receipt.host}")
    was, now = receipt.tools, tool_versions(project, config, tree)
    names = [name for name in {**was, **now} if was.get(name) != now.get(name)]
    other = [f"{name} was {was.get(name, 'not there')}, here {now.get(name, 'not there')}" for name in names]
    if other:
        raise _Incomparable(f"another version of a tool that the verifier names: {abbreviate(other)}")


def _measure(project: Project, config: Config, trees: tuple[str, str, str], count: int, watch: Observer) -> list[Pair]:
    baseline, best, pinned = trees
    target = measurements.pinned_target(project.standing, config, baseline, "a", "the baseline")
    before = structs.replace(target, baseline_tree=pinned, baseline_seconds={})
    after = structs.replace(before, tree=best, bench="b", name="the best")
    pairs: list[Pair] = []
    try:
        for pair in measure_pairs(project, before, after, count):
            pairs.append(pair)
            values = " and ".join(format_number(run.value, config.manifest.metric.unit) for run in pair)
            watch.on_note(f"pair {len(pairs)} of {count}: {values}")
    except GoalseekError as error:
        if error.stop_reason != StopReason.BASELINE_FAILED:
            raise
        raise _Incomparable(error.message) from None
    return pairs


def _settle_again(receipt: Receipt, metric: Metric, pairs: list[Pair]) -> tuple[SettledDifference, SettledDifference]:
    """The claimed and the measured difference, both as shares of the baseline, or both in the metric's units."""
    settled, values = receipt.settled, [(before.value, after.value) for before, after in pairs]
    cases = [(before.cases, after.cases) for before, after in pairs]
    found = settle(metric.direction, values, settled.in_percent, metric.unit, cases)
    if settled.in_percent and not found.in_percent:
        return settle(metric.direction, settled.pairs, False, metric.unit), found
    return settled.result, found


def _judge(
    receipt: Receipt, manifest: Manifest, pairs: list[Pair], claimed: SettledDifference, found: SettledDifference
) -> tuple[Answer, str]:
    if broken := broken_guards(manifest, pairs[-1]):
        return "disagrees", "; ".join(broken)
    if len(set(receipt.settled.pairs)) == 1 and claimed.cases is None:
        values = {(before.value, after.value) for before, after in pairs}
        wanted = (claimed.before, claimed.after)
        if all(math.isclose(*each, rel_tol=1e-9) for pair in values for each in zip(pair, wanted, strict=True)):
            return "agrees", "the numbers are the claimed ones"
        return "disagrees", "the claimed numbers repeat exactly, and these are others"
    if claimed.interval is None or found.interval is None:
        return "cannot be compared", "one of the two has no interval"
    if not found.is_sure or found.difference <= 0:
        return "disagrees", found.no_gain or "the best is worse here"
    if claimed.interval[0] > found.interval[1] or found.interval[0] > claimed.interval[1]:
        return "disagrees", "the best is better here too, but the two intervals do not overlap"
    return "agrees", "the best is better here too, and the two intervals overlap"
