"""Diagnosis of a failing command: the sandbox, or a file that it does not see."""

import itertools
import json
import os
import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import structs

from goalseek.disk import remove_if_exists
from goalseek.doctor.isolation import hidden_tests
from goalseek.evaluation.measurements import Target, measure_in_turn, printed_in, trial_folder
from goalseek.git.ignore import literal_pattern, matcher
from goalseek.git.objects import TreeReader
from goalseek.git.paths import SUBMODULE, SYMLINK, looks_like_git, quote_path
from goalseek.humanize import did_you_mean
from goalseek.manifest.command_words import SCRIPTS, parse_command
from goalseek.manifest.exposure import HIDE_SCRIPT, SPLIT, named_paths
from goalseek.manifest.tables import Manifest, VerifyCommand
from goalseek.measurement.verifier import STOP_THE_RUN
from goalseek.project.project import Project
from goalseek.sandbox.executables import as_manifest_line, missing_script
from goalseek.sandbox.level import SandboxLevel
from goalseek.sandbox.view import is_system_path
from goalseek.values import CommandRun, Finding, Level
from goalseek.workspace.scope import is_tool_cache, overlap_matcher, parents, paths_below

_PATH = re.compile(r"(?<![\w./-])(/[^\s:;'\"`<>|()\[\]{},]+)")
_MAX_NAMED = 8


def diagnose_sandbox(
    project: Project, target: Target, ask_consent: Callable[[bool], bool], remedy: str
) -> Iterator[Finding]:
    """Findings on whether the sandbox made the verifier fail, which was measured last.

    ``ask_consent`` gets whether the cause is known: there is a ``remedy``, and the output names no hidden path. Without
    consent nothing is run outside, and a finding says how to consent unless the cause is known.
    """
    confines = project.confines
    if confines.level.name == "none":
        return
    log = printed_in(trial_folder(project))
    seen = (*confines.shared, *confines.readable(), confines.top, project.places.home, Path("/proc"), Path("/dev"))
    named = {Path(os.path.normpath(text.rstrip("."))) for text in _PATH.findall(log)}
    is_seen = overlap_matcher(map(str, (*seen, *confines.masked, *confines.elsewhere)))
    unseen = {
        path
        for path in named
        if path.exists() and len(path.parts) > 2 and not is_system_path(path.resolve()) and not is_seen(str(path))
    }
    paths = tuple(sorted(path for path in unseen if unseen.isdisjoint(path.parents))[:_MAX_NAMED])
    is_known = bool(remedy) and not paths
    if not ask_consent(is_known):
        if not is_known:
            guess = f"; in its output: {', '.join(map(str, paths))}" if paths else ""
            text = f"the verifier failed in the sandbox; it was not tried outside{guess}"
            hint = "goalseek doctor --outside runs it once outside, and names the cause"
            yield Finding("note", text, hint, "outside")
        return
    level, text, remedy = _find_cause(project, target, paths, log, remedy)
    remove_if_exists(project.places.setup)
    yield Finding(level, text, remedy, "outside")


def _find_cause(
    project: Project, target: Target, paths: tuple[Path, ...], log: str, remedy: str
) -> tuple[Level, str, str]:
    """Run the verifier outside, then inside with more and more allowed: the cause, and its remedy."""
    confines, manifest = project.confines, target.config.manifest

    def works(manifest: Manifest) -> bool:
        remove_if_exists(project.places.setup)  # its result at another level would hide a failure at this one
        variant = structs.replace(target, config=project.config_of(manifest, changed_paths=target.config.scope.changed))
        return next(measure_in_turn(project, [variant])).evidence.failure is None

    outside = SandboxLevel("none", ("outside, as was asked for",))
    with project.using_policy(structs.replace(confines, level=outside)):
        if not works(manifest):
            verify = structs.replace(manifest.env.verify, pass_=tuple(os.environ))
            if not works(structs.replace(manifest, env=structs.replace(manifest.env, verify=verify))):
                text = "it fails outside the sandbox too: the sandbox is not the cause"
                return ("wrong" if remedy else "good"), text, remedy
            for text in (log, "\n".join(command.text for command in manifest.commands)):
                if variables := [name for name in os.environ if re.search(rf"\b{re.escape(name)}\b", text)]:
                    break
            shown = ", ".join(f'"{name}"' for name in variables[:_MAX_NAMED]) or '"..."'
            likely = f", {variables[0]}" if variables else "; its output names none"
            text = f"it works with all of your environment: the likely cause is a variable{likely}"
            return "wrong", text, f"env.verify.pass = [{shown}]"
    setup = structs.replace(manifest.setup, network=True) if manifest.setup else None
    commands = tuple(structs.replace(command, network=True) for command in manifest.verify)
    if works(structs.replace(manifest, verify=commands, setup=setup)):
        text = "it works outside the sandbox, and inside with the network: the likely cause is the network"
        return "wrong", text, "network = true for the command that needs it; setup may download first"
    table = structs.replace(confines.table, read=(*confines.table.read, *map(str, paths)))
    with project.using_policy(structs.replace(confines, table=table)):
        if paths and works(manifest):
            text = f"it works outside the sandbox, and inside with {', '.join(map(str, paths))}: a path is not shown"
            return "wrong", text, as_manifest_line([*map(Path, manifest.sandbox.read), *paths])
    read_only = [line for line in log.splitlines() if "Read-only file system" in line or "Permission denied" in line]
    if read_only:
        text = f"it works outside the sandbox; it likely writes to a read-only path: {read_only[-1].strip()[:200]}"
        remedy = "write in the tree, GOALSEEK_RUN_DIR or TMPDIR; or name a cache of a tool's in sandbox.cache"
        return "wrong", text, remedy
    text = "it works outside the sandbox, and its output names no path that is not shown"
    remedy = f"look inside: goalseek exec -- sh; name the missing path: {as_manifest_line([Path('/...')])}"
    return "wrong", text, remedy


_HIDDEN_FROM = "keep it outside of the repository, and name its folder in scope.hidden_from"
OUTSIDE = "or keep it outside of the repository and give its absolute path"
_LAST_LINES = 60
_NOT_RUN = (STOP_THE_RUN - 1, STOP_THE_RUN)  # a shell's exit codes if it cannot start a program
_UNKNOWN_COMMAND = re.compile(r"\S*sh: (?:(?:line )?\d+: )?([^\s/:]+): (?:command )?not found$")
_COMPLAINT = re.compile(r"(?i)\b(no|not|cannot|unable|missing)\b|n't|fail|error")
_LOCATION = re.compile(r"[^\s:]+:\d+:(?=\s)")  # of code that runs, and so is there
_QUOTED = re.compile(r"""'([^']+)'|"([^"]+)"|`([^`']+)[`']""")
_WORD_WITH_PATH = re.compile(r"""[^\s'"`<>()\[\]{},;:=|]*[/.][^\s'"`<>()\[\]{},;:=|]*""")
_WORD_IN_COLONS = re.compile(r"(?<=: )[^\s:]+(?=:|$)")
_NO_MODULE = re.compile(r"No module named '?(\w+)")
_MODULE = re.compile(r"(?i)\b(module|package)\b")


def unseen_file_hint(
    project: Project, manifest: Manifest, runs: Sequence[CommandRun], tree: str, run_folder: Path
) -> str:
    """A hint for a failed command or setup that needs a file which it does not see; or ""."""
    command = _failed_command(manifest, runs)
    missing = find_missing_path(project, manifest, tree, run_folder, runs) if command or not runs else None
    missing_text = f"{missing.text}: {missing.remedy}" if missing else ""
    if command is None:
        return missing_text
    lines, exit_code = printed_in(run_folder).splitlines()[-_LAST_LINES:], runs[-1].exit_code
    unknown = (match[1] for match in map(_UNKNOWN_COMMAND.match, lines) if match)
    if name := next(unknown, "") if exit_code == STOP_THE_RUN else "":
        return f"{command.name}: command not found: `{quote_path(name)}`"
    below = paths_below(project.places.prefix, project.repository.objects.files(tree))
    words, is_produced = parse_command(command.run).plain, _produced_paths(manifest)
    script = missing_script([command.run], project.folder, command.cwd, lambda path: path in below or is_produced(path))
    has_run = exit_code not in _NOT_RUN and script == os.path.normpath(words[0])
    if script and not has_run and manifest.scope.hidden_from is None:
        return f"{command.name}: {quote_path(script)} is in your checkout, but not committed: add it, {OUTSIDE}"
    if missing_text:
        return missing_text
    complaints = list(filter(_COMPLAINT.search, lines))
    for word in words if manifest.scope.hidden_from is None else ():
        path = os.path.normpath(os.path.join(command.cwd, word))
        is_complaint = word.endswith(SCRIPTS) and word in " ".join(complaints)
        if is_complaint and path not in below and not (project.folder / path).exists():
            absent = f"{command.name}: {quote_path(path)} does not exist"
            return "; ".join(filter(None, (absent, did_you_mean(path, below))))
    if command.sees == "both":
        return ""
    is_hidden = matcher(manifest.scope.hidden)
    if command.sees == "hidden":
        named = named_paths(command, {path: project.folder / path for path in below if is_hidden(path)})
        scripts = sorted(path for path in named & set(below) if path.endswith(SCRIPTS) and not is_hidden(path))
        text = f'{command.name}: sees = "hidden" shows it none of the candidate\'s code'
        if script := next((path for path in scripts if posixpath.basename(path) in printed_in(run_folder)), ""):
            return f"{text}, and it runs {quote_path(script)}: {HIDE_SCRIPT}"
        return f"{text}: name its input in the `outputs` of an earlier command"
    complained = (word for line in complaints for word in _words_with_path(line))
    word = next((word for word in (*words, *complained) if is_hidden(word.removeprefix("./"))), "")
    if not word:
        return ""
    if word in words and word.endswith(SCRIPTS):
        return f'{command.name}: sees = "candidate" shows it no hidden file, and it names {quote_path(word)}: {SPLIT}'
    text = f"{quote_path(word)} is hidden from the command {command.name}: take it out of scope.hidden"
    return f"{text}, unless it has answers; then {SPLIT}"


def _failed_command(manifest: Manifest, runs: Sequence[CommandRun]) -> VerifyCommand | None:
    failed = runs[-1].name if runs and runs[-1].exit_code else None
    return next((command for command in manifest.commands if command.name == failed), None)


def find_missing_path(
    project: Project, manifest: Manifest, tree: str, run_folder: Path, runs: Sequence[CommandRun]
) -> Finding | None:
    """The path, in the checkout but not in the tree, that made a command fail, by its last lines.

    The finding's place is the path for ``scope.share``; "" if that is no remedy. Relative paths are tried from the
    folders of the manifest, of the commands, and of files in these lines.
    """
    lines = printed_in(run_folder).splitlines()[-_LAST_LINES:]
    entries, prefix = project.repository.objects.files(tree), project.places.prefix
    top, bench = project.repository.top, project.places.bench("a")
    command = _failed_command(manifest, runs)
    if command and (globs := hidden_tests(command, manifest.scope.hidden, paths_below(prefix, entries))):
        return Finding("wrong", f"{' '.join(globs)} is hidden from this command", "take it out of scope.hidden")

    def below_top(base: str, word: str) -> str:
        path = os.path.normpath(os.path.join(top, base, word))
        root = next((root for root in (top, bench / "tree", bench / "ruler") if path.startswith(f"{root}/")), None)
        return os.path.relpath(path, root) if root else ""

    bases = dict.fromkeys((prefix, *(os.path.join(prefix, command.cwd) for command in manifest.commands)))
    paths = (below_top(prefix, word) for line in lines for word in _words_with_path(line))
    bases |= dict.fromkeys(os.path.dirname(path) for path in paths if path in entries)
    submodules = [path for path, entry in entries.items() if entry.mode == SUBMODULE]
    bases |= dict.fromkeys(base for path in submodules for base in (path, f"{path}/src", os.path.dirname(path)))
    modules = [match[1] for match in map(_NO_MODULE.search, lines) if match]
    bases |= dict.fromkeys(os.path.dirname(path) for path in entries if modules and path.endswith(".py"))
    program = parse_command(command.run).plain[0] if command and runs[-1].exit_code not in _NOT_RUN else None
    folders, is_produced = {folder for path in entries for folder in parents(path)}, _produced_paths(manifest)
    complaints = (_LOCATION.sub("", line) for line in reversed(lines) if _COMPLAINT.search(line))
    words = (word for line in complaints for word in _words_with_path(line) if word != program)
    for path in filter(None, (below_top(base, word) for word in words for base in bases)):
        root = next((part for part in (*reversed(list(parents(path))), path) if part not in folders), None)
        if root is None or not os.path.lexists(top / root) or is_produced(path.removeprefix(prefix)):
            continue
        if looks_like_git(root) or is_tool_cache(root) or (top / root).is_relative_to(project.loaded.logs.parent):
            continue
        name = f"`{quote_path(root)}{'/' if (top / root).is_dir() else ''}`"
        share = root.removeprefix(prefix)
        line = f"scope.share = {json.dumps([*manifest.scope.share, share], ensure_ascii=False)}"
        is_scorer = command is not None and command.sees == "hidden"
        if is_scorer:  # it may read the answers, and candidate code reads shared files
            line, share = f"commit it, and name it in scope.hidden; or {_HIDDEN_FROM}", ""
        if entry := entries.get(root):
            kind, real = {SUBMODULE: "a submodule", SYMLINK: "a link"}.get(entry.mode), (top / path).resolve()
            leads_to = real.relative_to(top.resolve()).as_posix() if real.is_relative_to(top.resolve()) else ""
            if kind is None or not real.exists() or leads_to in entries or leads_to in folders:
                continue
            return Finding("wrong", f"{name} is {kind}, and its target is not in the trees", line, share)
        absent = "not committed and so not in the trees"
        text = f"{name} is {absent}"
        if not root.startswith(prefix):
            return Finding("wrong", text, "commit it; scope.share names only what is in the manifest's folder")
        if project.config_of(manifest).scope.kind(path) == "hidden":
            return Finding("wrong", f"{name} is hidden and {absent}", f"commit it; or {_HIDDEN_FROM}")
        if not os.path.lexists(top / path):
            return Finding("wrong", text, f"mkdir -p {os.path.dirname(path).removeprefix(prefix)} in the command")
        incumbent, objects = project.standing.incumbent, project.repository.objects
        if incumbent and TreeReader(objects, incumbent.tree).has(root):  # the candidate removed it
            continue
        if any(project.repository.git("ls-tree", "HEAD", "--", root)):
            how = "goalseek baseline adopts it; if it is writable, goalseek baseline --from HEAD"
            return Finding("wrong", f"{name} was committed after the tree that the climb starts from", how)
        if any(project.repository.is_ignored(one) for one in (root, path)):
            return Finding("wrong", f"{name} is ignored by git and so not in the trees", line, share)
        return Finding("wrong", text, line if is_scorer else f"commit it; or, if it is data: {line}", share)
    for share, name in itertools.product(manifest.scope.share, modules):
        if any(one.stem.split(".")[0] == name for one in (project.folder / share).glob("lib/python*/site-packages/*")):
            return Finding("wrong", f"{share} has the module {name}", f"run the command with {share}/bin/python")
    return None


def _words_with_path(line: str) -> list[str]:
    """Words of an output line that may be paths: quoted, with a slash or a dot, or between colons."""
    quoted = [next(filter(None, groups)) for groups in _QUOTED.findall(line)]
    words = [*quoted, *_WORD_WITH_PATH.findall(line), *_WORD_IN_COLONS.findall(line)]
    if _MODULE.search(line):
        for name in quoted:
            for path in (module := name.replace(".", "/"), module.split("/")[0]):
                words += [f"{path}.py", path]
            words.append(f"node_modules/{name}")
    return [word.rstrip(".") for word in words if "\0" not in word]


def _produced_paths(manifest: Manifest) -> Callable[[str], bool]:
    given = (*manifest.scope.share, *(manifest.setup.gives if manifest.setup else ()))
    return matcher((*map(literal_pattern, given), *(path for command in manifest.commands for path in command.outputs)))
