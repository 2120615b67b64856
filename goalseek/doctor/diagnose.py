"""Diagnosis of a command that fails: is the sandbox the cause, or a file that it does not see?

The verifier is run once outside the sandbox, then inside with the network or with more paths. Hints for a file that a
verify command or an agent does not see need no run.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from goalseek.evaluation.measurements import Evaluation, Target, measure_target, trial_folder, unused_seed
from goalseek.git.ignore import matcher
from goalseek.git.objects import Entry
from goalseek.git.paths import quote_path
from goalseek.manifest.rules import words_of
from goalseek.manifest.tables import Manifest
from goalseek.own_folders import remove_if_exists
from goalseek.project.preflight import CheckResult
from goalseek.project.project import Project
from goalseek.sandbox.executables import as_manifest_line, which
from goalseek.sandbox.executables import words_of as run_words_of
from goalseek.sandbox.view import is_system_path
from goalseek.values import CommandRun

_FIRST_NUMBER = 2000
_PATH = re.compile(r"(?<![\w./-])(/[^\s:;'\"`<>|()\[\]{},]+)")
_MAX_LOG = 64 * 1024
_MAX_NAMED = 8


def diagnose_sandbox(
    project: Project, target: Target, ask_consent: Callable[[bool], bool], is_named: bool
) -> Iterator[CheckResult]:
    """Findings on whether the sandbox made the verifier fail, which was measured last.

    ``ask_consent`` gets whether the cause is known already: ``is_named``, and the output names no hidden path.
    Without consent nothing is run outside; the finding says how to give it, unless the cause is known.
    """
    if project.confines.level.name == "none":
        return
    path = trial_folder(project) / "verifier.log"
    log = path.read_bytes()[-_MAX_LOG:].decode("utf-8", "replace") if path.is_file() else ""
    paths = _hidden_paths(project, log)
    is_known = is_named and not paths
    if not ask_consent(is_known):
        guess = f"; in what it printed: {', '.join(map(str, paths))}" if paths else ""
        text = f"the verifier failed in the sandbox; it was not tried outside{guess}"
        remedy = "goalseek doctor --outside runs it once outside, and names the cause"
        if not is_known:
            yield CheckResult("outside", True, text, remedy)
        return
    numbers = itertools.count(_FIRST_NUMBER)

    def works(manifest: Manifest) -> bool:
        remove_if_exists(project.places.setup)  # what it gave at another level would hide that it fails at this one
        variant = replace(target, config=project.config_of(manifest, changed_paths=target.config.scope.changed))
        return measure_target(project, variant, unused_seed(project, next(numbers))).failure is None

    manifest = target.config.manifest
    with project.using_policy(project.confines.without_sandbox()):
        finding = None if works(manifest) else _diagnose_outside(manifest, works, log)
    finding = finding or _diagnose_inside(project, manifest, works, paths, log)
    remove_if_exists(project.places.setup)
    yield finding


def _diagnose_outside(manifest: Manifest, works: Callable[[Manifest], bool], log: str) -> CheckResult:
    """The finding where it fails outside too: a missing environment variable, or not the sandbox at all."""
    verify = replace(manifest.env.verify, pass_=tuple(os.environ))
    if not works(replace(manifest, env=replace(manifest.env, verify=verify))):
        return CheckResult("outside", True, "it fails outside the sandbox too: the sandbox is not the cause")
    runs = (command.run if isinstance(command.run, str) else " ".join(command.run) for command in manifest.verify)
    for text in (log, "\n".join(runs)):
        if variables := [name for name in os.environ if re.search(rf"\b{re.escape(name)}\b", text)]:
            break
    shown = ", ".join(f'"{name}"' for name in variables[:_MAX_NAMED]) or '"..."'
    likely = f", {variables[0]}" if variables else "; its output names none"
    text = f"it works with all of your environment: the likely cause is a variable{likely}"
    return CheckResult("outside", False, text, f"env.verify.pass = [{shown}]")


def _diagnose_inside(
    project: Project, manifest: Manifest, works: Callable[[Manifest], bool], paths: tuple[Path, ...], log: str
) -> CheckResult:
    """The finding where it works outside: what has to be allowed inside."""
    networked = replace(
        manifest,
        verify=tuple(replace(command, network=True) for command in manifest.verify),
        setup=replace(manifest.setup, network=True) if manifest.setup else None,
    )
    if works(networked):
        text = "it works outside the sandbox, and inside with the network: the likely cause is the network"
        remedy = "network = true for the command that needs it; setup may download first"
        return CheckResult("outside", False, text, remedy)
    with project.using_policy(project.confines.reading(tuple(map(str, paths)))):
        is_path = bool(paths) and works(manifest)
    if is_path:
        text = f"it works outside the sandbox, and inside with {', '.join(map(str, paths))}: a path is not shown"
        return CheckResult("outside", False, text, as_manifest_line([*map(Path, manifest.sandbox.read), *paths]))
    read_only = [line for line in log.splitlines() if "Read-only file system" in line or "Permission denied" in line]
    if read_only:
        text = f"it works outside the sandbox; it likely writes where it may only read: {read_only[-1].strip()[:200]}"
        remedy = "write in the tree, GOALSEEK_RUN_DIR or TMPDIR; or name a cache of a tool's in sandbox.cache"
        return CheckResult("outside", False, text, remedy)
    text = "it works outside the sandbox, and its output names no path that is not shown"
    remedy = f"look from its place: goalseek exec -- sh; name what it misses: {as_manifest_line([Path('/...')])}"
    return CheckResult("outside", False, text, remedy)


def _hidden_paths(project: Project, log: str) -> tuple[Path, ...]:
    """Existing paths in the output that no command can see; only the outermost of them."""
    confines = project.confines
    masked = (*confines.masked, *confines.elsewhere)
    visible = [*confines.shared, *confines.readable(), confines.top, project.places.home, Path("/proc"), Path("/dev")]
    paths = {Path(os.path.normpath(text.rstrip("."))) for text in _PATH.findall(log)}
    hidden = {
        path
        for path in paths
        if path.exists() and len(path.parts) > 2 and not is_system_path(path.resolve())
        if not any(path.is_relative_to(other) or other.is_relative_to(path) for other in (*visible, *masked))
    }
    return tuple(sorted(path for path in hidden if hidden.isdisjoint(path.parents))[:_MAX_NAMED])


_OUTSIDE = "or keep it outside of the repository and give its absolute path"


def unseen_file_hint(project: Project, manifest: Manifest, runs: Sequence[CommandRun], tree: str) -> str:
    """A hint for a failed command that needs a file which ``sees`` does not show, or that is not committed; or ""."""
    failed = runs[-1].name if runs and runs[-1].exit_code else None
    command = next((command for command in manifest.verify if command.name == failed), None)
    if command is None:
        return ""
    entries, prefix = project.repository.objects.files(tree), project.places.prefix
    shared = (*manifest.scope.share, *(manifest.setup.gives if manifest.setup else ()))
    is_produced = matcher((*shared, *(pattern for other in manifest.verify for pattern in other.outputs)))

    def is_there(path: str) -> bool:
        return prefix + path in entries or is_produced(path)

    script = _script_outside([command.run], project.folder, command.cwd, is_there)
    if script and manifest.scope.hidden_from is None:
        return f"{command.name}: {quote_path(script)} is in your checkout, but not committed: add it, {_OUTSIDE}"
    if command.sees == "both":
        return ""
    if command.sees == "hidden":
        text = 'sees = "hidden" shows it none of the candidate\'s code: name what it needs in `outputs` before it'
        return f'{command.name}: {text}, or write sees = "both"'
    is_hidden = matcher(manifest.scope.hidden)
    named = [word for word in words_of(command) if is_hidden(word.removeprefix("./"))]
    if not named:
        return ""
    return f'{command.name}: sees = "candidate" shows it no hidden file, and it names {named[0]}: write sees = "both"'


def unseen_script_hint(
    evaluation: Evaluation, commands: Iterable[Sequence[str]], entries: Mapping[str, Entry]
) -> tuple[str, str]:
    """A script of an agent's command that its tree lacks, and the remedy; ("", "") where it lacks none."""
    project, config = evaluation.project, evaluation.config
    prefix, is_seen = config.scope.prefix, config.scope.seen_by("agent")
    is_shared = matcher(config.manifest.scope.share)

    def is_there(path: str) -> bool:
        return is_shared(path) or (prefix + path in entries and is_seen(prefix + path))

    # The program itself is run from the checkout; what it is given to run is looked for in the tree.
    script = _script_outside(commands, project.folder, ".", is_there)
    if not script:
        return "", ""
    if prefix + script in entries:
        return f"{quote_path(script)} is hidden from the agent", "name another file, or take it out of scope.hidden"
    text = f"{quote_path(script)} is in your checkout, but not committed where the agent's tree is taken from"
    return text, f"commit it, and where a climb has begun adopt it with goalseek baseline; {_OUTSIDE}"


def _script_outside(
    commands: Iterable[str | Sequence[str]], folder: Path, cwd: str, is_there: Callable[[str], bool]
) -> str:
    """The first script that a command runs by a relative path to a file of the checkout that is not there; or ""."""
    path = os.environ.get("PATH", os.defpath)

    def is_file(word: str) -> bool:
        return os.path.isfile(folder / cwd / word)

    for command in commands:
        for word in run_words_of(command, lambda text: is_file(text) or which(text, path, folder / cwd) is not None):
            script = os.path.normpath(os.path.join(cwd, word.text))
            is_program = not isinstance(command, str) and word.text == command[0]
            is_below = not is_program and not script.startswith(("/", ".."))
            if word.is_run and is_below and is_file(word.text) and not is_there(script):
                return script
    return ""
