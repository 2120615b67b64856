"""The provider ``scripted``: makes the edits of a script file, one a proposal. For tests, demos and new manifests."""

import functools
import hashlib
import stat
from pathlib import Path, PurePosixPath

from msgspec import Struct, ValidationError, convert

from goalseek import process
from goalseek.disk import create
from goalseek.errors import GoalseekError, Rejected
from goalseek.git.command import environment
from goalseek.humanize import pluralize
from goalseek.manifest.tables import ProviderTable
from goalseek.phase_values import Plan, Played
from goalseek.providers.provider import Call, Provider, Reply
from goalseek.values import Outcome, Reason, StopReason, to_line


class Move(Struct, frozen=True, forbid_unknown_fields=True):
    """One ``[[move]]``: new texts by path, or a patch as ``git apply`` takes it, or both."""

    title: str
    files: dict[str, str] = {}
    patch: str = ""


class ScriptedProvider(Provider):
    """Each proposal makes the move after the last recorded one of this script."""

    repairs = False

    def __init__(self, table: ProviderTable, folder: Path) -> None:
        self.script, self.model, self.name = (folder / table.script).resolve(), table.model, table.name

    def check(self) -> None:
        read_script(self.script)

    def plan(self, call: Call) -> Reply:
        move, digest = self._move(call)
        return Reply(move.title, "Move of the script.", tuple(move.files), script=digest)

    def apply(self, call: Call, plan: Plan) -> Reply:
        move, _ = self._move(call)
        for path, text in move.files.items():  # a symbolic link in a path is replaced: it may lead out of the tree
            target, name = call.folder / path, PurePosixPath(path).as_posix()
            is_program = target.is_file() and not target.is_symlink() and target.stat().st_mode & stat.S_IXUSR
            with create(call.folder / name, 0o755 if is_program else 0o644) as file:
                file.write(text.encode("utf-8", "surrogateescape"))
        patch = (self.script.parent / move.patch).resolve()
        if move.patch and (error := apply_patch(patch, call.folder)):
            raise Rejected(Outcome.SKIPPED, Reason.PROVIDER_FAILED, f"{patch.name} does not apply: {error}")
        return Reply(move.title, "Move of the script.", tuple(move.files))

    def played_out(self, attempt: int, played: Played | None = None) -> str:
        moves, _, position = self._script(attempt, played)
        end = f"the script has no more moves: {self.script.name} has {pluralize(len(moves), 'move')}"
        return end if position >= len(moves) else ""

    def _move(self, call: Call) -> tuple[Move, str]:
        attempt, played = call.context.attempt, call.context.played
        if why := self.played_out(attempt, played):
            raise Rejected(Outcome.SKIPPED, Reason.PROVIDER_FAILED, why)
        moves, digests, position = self._script(attempt, played)
        return moves[position], digests[position]

    def _script(self, attempt: int, played: Played | None) -> tuple[list[Move], list[str], int]:
        """Moves, digests, and the number of moves played; 0 if those played are not the script's first ones."""
        changed_at = self.script.stat().st_mtime_ns if self.script.exists() else 0
        moves, digests = _script_and_digests(self.script, changed_at)
        if played is None:
            return moves, digests, attempt
        begun = max((digests.index(one) + 1 for one in (played.digest, *played.ahead) if one in digests), default=0)
        return moves, digests, begun if played.digest or played.ahead else played.count


@functools.lru_cache(maxsize=4)
def _script_and_digests(path: Path, changed_at: int) -> tuple[list[Move], list[str]]:
    """The moves, and for each the digest of the moves up to it."""
    moves, digest, digests = read_script(path), hashlib.sha256(), []
    for move in moves:
        digest.update(to_line(move).encode() + b"\n")
        digests.append(digest.hexdigest())
    return moves, digests


def read_script(path: Path) -> list[Move]:
    """Raises GoalseekError naming the wrong move."""
    import tomllib

    try:
        plain = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        message = f"provider.script: {path} cannot be read: {(error.strerror or str(error)).lower()}"
        hint = 'provider.script = "moves.toml" names a file of [[move]] tables, relative to the manifest\'s folder'
        raise GoalseekError(message, hint, StopReason.PROVIDER) from None
    except ValueError as error:
        raise GoalseekError(f"{path}: {error}", "see https://toml.io for the format", StopReason.PROVIDER) from None
    moves = plain.get("move")
    if not isinstance(moves, list) or set(plain) != {"move"}:
        message = f"{path}: a script is a list of [[move]]"
        raise GoalseekError(message, "[[move]] with title and files", StopReason.PROVIDER)
    read = []
    for number, each in enumerate(moves, start=1):
        try:
            move = convert(each, Move)
        except ValidationError:
            move = None
        if move is None or not (move.files or move.patch):
            message = f"{path}: move {number}: needs a title, and files or patch"
            raise GoalseekError(message, 'title = "...", files = { "x.py" = "new text" }', StopReason.PROVIDER)
        for name in move.files:
            if Path(name).is_absolute() or ".." in Path(name).parts:
                message = f"{path}: move {number}: {name!r} leaves the folder"
                raise GoalseekError(message, "paths are relative to the manifest's folder", StopReason.PROVIDER)
        read.append(move)
    return read


make = ScriptedProvider


def apply_patch(patch: Path | bytes, folder: Path) -> str:
    """Apply a patch, or a file's, all of it or nothing. Returns git's error message, or ""."""
    name, stdin = (str(patch), b"") if isinstance(patch, Path) else ("-", patch)
    result = process.run(["git", "apply", "--whitespace=nowarn", name], environment(), stdin, folder)
    if not result.returncode:
        return ""
    return result.stderr.decode("utf-8", "replace").strip() or f"git apply ended with {result.returncode}"
