"""The hidden files that candidate code can read, as far as the manifest tells."""

import contextlib
import posixpath
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from goalseek.git.ignore import matcher
from goalseek.git.paths import quote_path
from goalseek.humanize import abbreviate
from goalseek.manifest.command_words import SCRIPTS, parse_command, words_in
from goalseek.manifest.tables import TIME_SOURCES, Manifest, VerifyCommand
from goalseek.values import Finding

EXPOSED = "candidate code can read the hidden files"
UNCHECKED = "nothing checks the output of the timed program: an empty program would win"
CHECK_OUTPUT = 'let a command with sees = "hidden" check its `outputs`: was all the work done?'
SPLIT = (
    'split it: a command with sees = "candidate" runs the code and leaves `outputs`, '
    'one with sees = "hidden" scores them'
)
HIDE_SCRIPT = "hide it: name it in scope.hidden, and take it out of scope.writable and `outputs`"
COMMIT_HIDDEN = "name it in scope.hidden, or keep it outside (goalseek help recipe-hidden)"
HASH_INSTEAD = "keep its sha256 instead, or for floats let a hidden script compute them again (goalseek help verifier)"
_SMALL = 200_000  # how long a hidden file may be that is read
_FIXED_SEED = re.compile(r"\b(?:\w*seed|srand|default_rng)\(\s*\d+\s*\)|\brandom_state\s*=\s*\d")
_COMMENT = re.compile("#|//")
_CHECKSUM = re.compile(r"(?i)\w+sum\b|openssl|hashlib|sha\d|md5")
_CHECKSUM_FILE = re.compile(r"(?i)sum|sha\d|md5|hash|digest")


def isolation_of(manifest: Manifest) -> str:
    """``both`` if candidate code could read hidden files, ``timed`` with a ``timed_program``, or the last ``sees``."""
    if exposing_commands(manifest):
        return "both"
    if timed_program(manifest):
        return "timed"
    return "hidden" if manifest.commands[-1].sees == "hidden" else "candidate"


def exposing_commands(manifest: Manifest) -> tuple[str, ...]:
    """Names of verify commands in which candidate code runs beside hidden files, except ``timed_program``.

    If nothing is hidden: those that score without candidate code, but run a script of it.
    """
    commands, timed = manifest.commands, timed_program(manifest)
    hidden = [command for command in commands if command != timed and command.sees == "hidden"]
    exposing = [command for command in hidden if candidate_scripts(manifest, command)]
    if manifest.scope.hidden or manifest.scope.hidden_from is not None:
        exposing += [command for command in hidden if started_outputs(manifest, command)]
        exposing += [command for command in commands if command.sees == "both"]
    return tuple(command.name for command in commands if command in exposing)


def started_outputs(manifest: Manifest, command: VerifyCommand) -> set[str]:
    """Outputs of earlier commands that a command starts as programs."""
    is_output = matcher(manifest.outputs_before(command))
    programs = (word.text for word in parse_command(command.run).words() if word.role == "program")
    return set(filter(is_output, (program.removeprefix("./") for program in programs)))


def candidate_scripts(manifest: Manifest, command: VerifyCommand) -> set[str]:
    """Scripts that a command runs by an interpreter and a candidate can write; never hidden ones."""
    scope = manifest.scope
    is_hidden, is_output = matcher(scope.hidden), matcher(manifest.outputs_before(command))
    # A file of hidden_from takes the place of one that a writable glob matches.
    is_writable = matcher(() if scope.hidden_from else (*scope.writable, *scope.generated))
    is_read_only = matcher(scope.read_only)
    scripts = parse_command(command.run).scripts()
    paths = {posixpath.normpath(posixpath.join(command.cwd, script)) for script in scripts}
    return {
        path
        for path in paths
        if not is_hidden(path) and (is_output(path) or (is_writable(path) and not is_read_only(path)))
    }


def timed_program(manifest: Manifest) -> VerifyCommand | None:
    """The command whose time is the metric, if it runs an earlier one's output beside the hidden files."""
    if manifest.metric.source not in TIME_SOURCES:
        return None
    command = next(command for command in manifest.commands if command.name == manifest.metric.command)
    return command if command.sees == "hidden" and manifest.outputs_before(command) else None


def later_check(manifest: Manifest, command: VerifyCommand) -> str:
    """The command that judges this one's outputs beside the hidden files; "" if none does."""
    later = manifest.commands[manifest.commands.index(command) + 1 :] if command.outputs else ()
    return next((other.name for other in later if other.sees == "hidden"), "")


def unchecked_time(manifest: Manifest) -> Finding | None:
    """A note if the metric is a program's time, and no command judges its output."""
    if manifest.metric.source not in TIME_SOURCES:
        return None
    timed = next(command for command in manifest.commands if command.name == manifest.metric.command)
    others = [command for command in manifest.commands if command != timed]
    if later_check(manifest, timed) or any(other.sees == "both" for other in others):
        return None
    return Finding("note", f"{timed.name}'s run time is its score: {UNCHECKED}", CHECK_OUTPUT)


def exposures(manifest: Manifest) -> Iterator[Finding]:
    names = exposing_commands(manifest)
    for command in (command for command in manifest.commands if command.name in names):
        scripts = candidate_scripts(manifest, command) if command.sees == "hidden" else set()
        if scripts:
            text = f"runs {', '.join(map(quote_path, sorted(scripts)))}, which the candidate can write"
            yield Finding("wrong", f"{EXPOSED}: {command.name} {text}", HIDE_SCRIPT)
        else:
            yield Finding("wrong", f"{EXPOSED}: {command.name} sees both", SPLIT)


def fixed_seed_line(text: str) -> int | None:
    """Number of the first line that draws at random from a literal seed."""
    lines = enumerate(text.splitlines(), start=1)
    return next((number for number, line in lines if _FIXED_SEED.search(_COMMENT.split(line)[0])), None)


def may_show_answers(manifest: Manifest) -> bool:
    """Whether files must be read to know if candidate code can see the answers, or the scorer."""
    if manifest.scope.share or timed_program(manifest):
        return True
    is_hidden = matcher(manifest.scope.hidden)
    commands = [command for command in manifest.commands if command.sees == "hidden"]
    return not all(map(is_hidden, (path for one in commands for path in parse_command(one.run).files(one.cwd))))


def visible_scorers(manifest: Manifest, visible: Collection[str]) -> Iterator[Finding]:
    """A note on each command that scores by a ``visible`` file, unless the candidate can write it."""
    is_writable, is_read_only = matcher(manifest.scope.writable), matcher(manifest.scope.read_only)
    for command in manifest.commands:
        paths = parse_command(command.run).files(command.cwd) if command.sees == "hidden" else ()
        script = next((path for path in paths if path in visible), "")
        if script and (is_read_only(script) or not is_writable(script)):
            text = f"{command.name}: the agent and its code can read {quote_path(script)}, which scores"
            yield Finding("note", text, COMMIT_HIDDEN)


def readable_answers(manifest: Manifest, hidden: Mapping[str, Path]) -> Finding | None:
    """A note on ``hidden`` files that a later command compares with, and the timed program can read too."""
    timed = timed_program(manifest)
    if timed is None:
        return None
    texts = []
    remaining = {path for path in hidden if not path.endswith(SCRIPTS) and not _CHECKSUM_FILE.search(path)}
    remaining -= named_paths(timed, hidden)
    for command in manifest.commands[manifest.commands.index(timed) + 1 :]:
        named = named_paths(command, hidden, _CHECKSUM) if command.sees != "candidate" else set()
        texts += [f"{timed.name}: the timed program can read {quote_path(path)}" for path in sorted(remaining & named)]
        remaining -= named
    return Finding("note", abbreviate(texts), HASH_INSTEAD) if texts else None


def named_paths(
    command: VerifyCommand, hidden: Mapping[str, Path], left_out: re.Pattern[str] | None = None
) -> set[str]:
    """Paths in a command's text, or in hidden scripts that it runs, except in lines that match ``left_out``."""
    named = _paths_in(command.text, left_out, command.cwd, command.cwd)
    for script in named & hidden.keys():
        if script.endswith(SCRIPTS):
            named = named | _paths_in(read_small(hidden[script]), left_out, command.cwd, posixpath.dirname(script))
    return named


def _paths_in(text: str, left_out: re.Pattern[str] | None, cwd: str, folder: str) -> set[str]:
    """Words are paths in the folder ``cwd``; quoted ones, and words like paths, also in the text's own ``folder``."""
    parts = [part for part in re.split(r"&&|\|\||;|\n", text) if not (left_out and left_out.search(part))]
    words = set[str]().union(*map(words_in, parts))
    strings = {string for part in parts for string in re.findall(r"""['"]([^'"]+)['"]""", part)}
    own = strings | {word.removeprefix("/") for word in words if "/" in word or "." in word}  # after a variable
    pairs = [*((cwd, word) for word in words | strings), *((folder, word) for word in own)]
    return {posixpath.normpath(posixpath.join(*pair)) for pair in pairs}


def read_small(file: Path) -> str:
    """The text of a short file; "" of any other."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if file.is_file() and file.stat().st_size <= _SMALL:
            return file.read_text("utf-8")
    return ""
