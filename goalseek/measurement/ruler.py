"""The ruler: all that a number depends on beside the candidate, pinned with the baseline."""

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from goalseek.errors import GitFailed, GoalseekError
from goalseek.git.command import AUTHOR, git
from goalseek.git.location import Location
from goalseek.git.paths import folder_prefix, normalize_glob, normalize_path, quote_path
from goalseek.humanize import MAX_NAMES, abbreviate, pluralize
from goalseek.manifest.command_words import parse_command
from goalseek.manifest.loading import ManifestFile, base_of
from goalseek.manifest.rules import authors_of
from goalseek.manifest.tables import Manifest, Metric
from goalseek.values import Finding, from_line, from_plain, to_line, to_plain
from goalseek.workspace.listing import Listing
from goalseek.workspace.scope import Scope, manifest_scope

_NORMALIZERS: dict[str, Callable[[str], str]] = {
    "gives": normalize_path,
    "cwd": normalize_path,
    "path": normalize_path,
    "outputs": normalize_glob,
    "keep": normalize_glob,
}
_READING_KEYS = ("name", "source", "path", "query", "regex", "matches", "command", "valid")


class Ruler(Struct, frozen=True):
    """``files`` is a digest of the baseline's hidden and read-only files; ``hidden_from`` lists that folder's files."""

    keys: dict[str, Any]
    files: str
    hidden_from: Listing = ()

    @property
    def digest(self) -> str:
        """SHA-256 in hex; numbers of two rulers are never compared."""
        line = to_line(self if self.hidden_from else {"keys": self.keys, "files": self.files})
        return hashlib.sha256(line.encode()).hexdigest()


def ruler_keys(manifest: Manifest) -> dict[str, Any]:
    metric, commands = manifest.metric, [{**to_plain(command), "timeout": None} for command in manifest.verify]
    plain = {
        "scope": {
            "hidden": manifest.scope.hidden,
            "read_only": manifest.scope.read_only,
            **({"hidden_from": manifest.scope.hidden_from} if manifest.scope.hidden_from else {}),
        },
        "setup": {**to_plain(manifest.setup), "timeout": None} if manifest.setup else None,
        "verify": commands,
        "env": manifest.env.verify,
        "metric": {
            **{name: getattr(metric, name) for name in (*_READING_KEYS, "direction")},
            **({"cases": metric.cases, "missing": metric.missing} if metric.cases else {}),
        },
        "guard": [{name: getattr(guard, name) for name in _READING_KEYS} for guard in manifest.guard],
        **({"holdout": manifest.holdout} if manifest.holdout else {}),
    }
    keys: dict[str, Any] = json.loads(to_line(plain))
    return keys


def with_pinned_ruler(manifest: Manifest, ruler: Ruler) -> Manifest:
    """The ruler's keys as they were pinned, and everything else as it is now."""
    plain, keys = to_plain(manifest), _normal_keys(ruler)
    commands = {command["name"]: command for command in plain["verify"]}
    guards = {guard["name"]: guard for guard in plain["guard"]}
    holdout = keys.get("holdout") or {}
    pinned = {
        **plain,
        "verify": [_with_timeout(command, commands.get(command["name"])) for command in keys["verify"]],
        "metric": {**plain["metric"], **keys["metric"]},
        "guard": [{**guards.get(guard["name"], {}), **guard} for guard in keys["guard"]],
        "setup": _with_timeout(keys["setup"], plain["setup"]),
        "scope": {**plain["scope"], "hidden_from": None, **keys["scope"]},
        "env": {**plain["env"], "verify": keys["env"]},
        "holdout": holdout if "command" in holdout else None,  # an earlier version pinned a command of its own
    }
    return from_plain(Manifest, pinned)


def _with_timeout(pinned: dict[str, Any] | None, current: dict[str, Any] | None) -> dict[str, Any] | None:
    """With the timeout that the manifest gives it now; the usual one if it has no such command."""
    if pinned is None:
        return None
    timeout = {"timeout": current["timeout"]} if current else {}
    return {key: value for key, value in pinned.items() if key != "timeout"} | timeout


def differing_keys(manifest: Manifest, ruler: Ruler) -> list[str]:
    current, pinned = ruler_keys(manifest), _normal_keys(ruler)
    return [name for name in {**current, **pinned} if current.get(name) != pinned.get(name)]


def refuse_removed_keys(ruler: Ruler) -> None:
    """Raises GoalseekError if a pinned key is of an earlier version: its numbers cannot be measured any more."""
    names = [f"metric.{key}" for key in _normal_keys(ruler)["metric"] if key not in Metric.__struct_fields__]
    if names:
        was = f"{' and '.join(sorted(names))}, which {'were' if len(names) > 1 else 'was'} removed"
        hint = "goalseek baseline pins the verifier that the manifest has now, and the climb goes on from there"
        raise GoalseekError(f"the pinned verifier has {was}", hint)


def _normal_keys(ruler: Ruler) -> dict[str, Any]:
    """In the spelling that a manifest has, without keys of earlier versions that say what holds without them."""
    keys = dict(ruler.keys)
    if keys["metric"].get("repeats") == 1:
        keys["metric"] = {name: value for name, value in keys["metric"].items() if name not in ("repeats", "aggregate")}
    keys["verify"] = [_normal_table(command) for command in keys["verify"]]
    keys["guard"] = [_normal_table(guard) for guard in keys["guard"]]
    for name in ("setup", "metric"):
        if keys.get(name):
            keys[name] = _normal_table(keys[name])
    return keys


def _normal_table(table: dict[str, Any]) -> dict[str, Any]:
    normal = dict(table)
    for key in _NORMALIZERS.keys() & table.keys():
        with contextlib.suppress(ValueError):  # a path that leads out is refused where it is used
            values = table[key]
            normal[key] = _NORMALIZERS[key](values) if isinstance(values, str) else list(map(_NORMALIZERS[key], values))
    return normal


class HeadDifferences(Struct, frozen=True):
    """What HEAD and the manifest have and the climb lacks, in words.

    ``keys`` and ``files`` are what a new baseline adopts, those outside the manifest's folder last. ``code`` is on
    writable files of HEAD that neither a commit since the baseline nor the origin of the climb's code has; "" for none.
    """

    keys: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    code: str = ""

    @property
    def ruler(self) -> tuple[str, ...]:
        """Each key and each of the first files, and how many more there are."""
        more = len(self.files) - MAX_NAMES
        files = [f"file {path}" for path in self.files[:MAX_NAMES]]
        return (*self.keys, *files, *([f"and {pluralize(more, 'more file')}"] if more > 0 else []))

    @property
    def finding(self) -> Finding | None:
        """None if nothing differs."""
        noun = "file" if len(self.files) == 1 else "files"
        names = [*self.keys, *([f"{noun} {abbreviate(self.files)}"] if self.files else [])]
        verb, them = ("differ", "them") if len(self.keys) + len(self.files) > 1 else ("differs", "it")
        text = f"{', '.join(names)} {verb} from the pinned verifier"
        return Finding("note", text, f"goalseek baseline adopts {them}") if names else None


def differences_of_head(loaded: ManifestFile, location: Location, baseline: str) -> HeadDifferences:
    """``baseline`` is the commit of the present one; nothing differs if it is ""."""
    if not baseline:
        return HeadDifferences()
    scope = manifest_scope(loaded, loaded.manifest, folder_prefix(location.top, loaded.folder))
    try:
        refs = f"refs/goalseek/{loaded.manifest.project.name}"
        ruler, head = _read_ruler_and_head(location, f"{refs}/ledger")
        changed_blobs, tip = _changed_blobs(location, baseline, head), f"{refs}/tip"
        blobs = {path: blob for path, blob in changed_blobs.items() if scope.kind(path) == "writable"}
        new_paths, leaves = [], ""
        if blobs:
            # What a commit since the baseline brought in is a kept change that came home.
            arguments = ("log", "--first-parent", "--format=", "--raw", "--no-abbrev", f"{baseline}..{tip}")
            climbed = git(*arguments, git_dir=location.git_dir)
            new_paths = [path for path, blob in blobs.items() if blob.strip("0") and blob.encode() not in climbed]
        if new_paths:
            origin = _find_origin(location, baseline, scope)
            new_blobs = _changed_blobs(location, origin, head)
            new_paths = [path for path in new_paths if path in new_blobs]
            if any(scope.kind(path) == "writable" for path in _changed_blobs(location, origin, tip)):
                leaves = ", and leaves the kept changes: goalseek promote, and merge them first"
    except GitFailed:
        return HeadDifferences()
    keys = tuple(f"key {key}" for key in differing_keys(loaded.manifest, ruler))
    folder, hidden = loaded.manifest.scope.hidden_from, []
    if folder and folder == ruler.keys["scope"].get("hidden_from"):  # another folder is a key that differs
        from goalseek.workspace import hidden_files

        listing = hidden_files.changed_files(base_of(loaded, location.top) / folder, ruler.hidden_from)
        hidden = [f"{folder}/{quote_path(path)}" for path in listing]
    own = proposer_files(loaded.manifest, scope)
    own |= _files_named(loaded.manifest.notify.command or (), loaded.manifest, scope.prefix)
    paths = [path for path in changed_blobs if scope.in_ruler(path) and path not in own]
    paths.sort(key=lambda path: not path.startswith(scope.prefix))
    files = map(quote_path, paths)
    verb, them = ("are", "them") if len(new_paths) > 1 else ("is", "it")
    names = abbreviate([quote_path(path) for path in new_paths])
    code = f"HEAD's {names} {verb} not in the climb; goalseek baseline --from HEAD climbs from {them}{leaves}"
    return HeadDifferences(keys, (*hidden, *files), code if names else "")


def _read_ruler_and_head(location: Location, ledger: str) -> tuple[Ruler, str]:
    """By one git process. Raises GitFailed if one is missing."""
    output = git("cat-file", "--batch", git_dir=location.git_dir, stdin=f"{ledger}:ruler.json\nHEAD\n".encode())
    header, _, body = output.partition(b"\n")
    if not header.endswith(b" missing"):
        size = int(header.rsplit(b" ", 1)[1])
        head, kind, *_ = body[size + 1 :].split(b" ", 2)
        if kind == b"commit":
            return from_line(Ruler, body[:size].decode()), head.decode()
    raise GitFailed(("cat-file", ledger), 1, output[:200])


def _find_origin(location: Location, baseline: str, scope: Scope) -> str:
    """The user's commit that a baseline's code came from, before the changes kept under earlier baselines."""
    log = ("log", "--first-parent", "--format=%ce %H %P", baseline, "--not", "HEAD")
    origin = baseline
    for line in git(*log, git_dir=location.git_dir).decode("utf-8", "surrogateescape").splitlines():
        committer, made, *parents = line.split(" ")
        if committer != AUTHOR[1]:
            return made
        for source in parents[1:]:  # a later baseline: the user's commits are its other parents
            if not any(scope.kind(path) == "writable" for path in _changed_blobs(location, source, made)):
                return source
        origin = parents[0]
    return origin


def proposer_files(manifest: Manifest, scope: Scope) -> set[str]:
    """Programs and scripts that the providers' commands run, and no command of the verifier names."""
    commands = (table.command or () for table in authors_of(manifest.provider, manifest.search.rotate))
    words = (parse_command(command).words() for command in commands)
    return _files_named((word.text for line in words for word in line if word.is_run), manifest, scope.prefix)


def _files_named(words: Iterable[str], manifest: Manifest, prefix: str) -> set[str]:
    """Without those that setup or a command of the verifier names too."""
    commands = [(command.run, command.cwd) for command in manifest.verify]
    commands += [(manifest.setup.run, ".")] if manifest.setup else []
    verifying = {
        os.path.normpath(os.path.join(folder, word.text))
        for command, folder in commands
        for word in parse_command(command).words()
    }
    return {prefix + path for path in map(os.path.normpath, words) if path not in verifying}


def _changed_blobs(location: Location, before: str, after: str) -> dict[str, str]:
    """The blob of each differing path in the second commit; zeros if it is gone there."""
    if before == after:
        return {}
    listing = ("diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", before, after)
    fields = git(*listing, git_dir=location.git_dir).split(b"\0")
    return {os.fsdecode(path): row.split(b" ")[3].decode() for row, path in zip(*[iter(fields)] * 2, strict=False)}
