"""The first manifest, for ``init``: guesses from file names and texts, the user's answers, and a first measurement.

A guess is only a default: a person sees it, or accepts it with ``--yes``.
"""

from __future__ import annotations

import re
import shlex
import shutil
import tomllib
from collections.abc import Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec import Struct, structs

from goalseek.doctor.checks import check_fit
from goalseek.doctor.diagnose import find_missing_path, unseen_file_hint
from goalseek.doctor.subject import subject_of
from goalseek.errors import USAGE, GoalseekError
from goalseek.evaluation.measurements import (
    Evaluation,
    MeasuredValue,
    baseline_error,
    baseline_target,
    measure_in_turn,
    record_number,
    trial_folder,
)
from goalseek.git.ignore import matcher
from goalseek.git.repository import DEFAULT_BRANCH_PREFIX
from goalseek.manifest import loading, validation
from goalseek.manifest.command_words import parse_command
from goalseek.manifest.loading import ManifestFile
from goalseek.manifest.tables import VerifyCommand
from goalseek.phase_values import Failure
from goalseek.project.observer import Observer
from goalseek.project.opening import open_project
from goalseek.providers.registry import make_permitted_provider
from goalseek.values import CommandRun, Reason

_CODE = frozenset(".py .js .ts .c .cc .cpp .rs .go .java .rb .jl .r .sh .sql .txt .md".split())
_CHANGES = "experiment solution candidate train training model classifier solver main prompt".split()
_JUDGES = "validate verify score judge evaluate evaluation eval grade check verifier scorer benchmark bench".split()
_JUDGE_FOLDERS = "hidden holdout private verifier".split()
_HIDDEN_FOLDERS = [*_JUDGE_FOLDERS, "tests", "test"]
_SOURCE_FOLDERS = ("src", "lib")
_METRICS = {
    "accuracy": "maximize",
    "score": "maximize",
    "f1": "maximize",
    "auc": "maximize",
    "throughput": "maximize",
    "loss": "minimize",
    "error": "minimize",
    "rmse": "minimize",
    "seconds": "minimize",
    "bytes": "minimize",
}
_RUNNERS = {".py": "python", ".sh": "sh", ".js": "node", ".rb": "ruby", ".jl": "julia", ".r": "Rscript"}
_NUMBER = r"([-+.\deE]+)"
_WORD_BEFORE_GROUP = re.compile(r"(?<![\\\w])([A-Za-z_]\w+)(?:\\s|[\s:=*+])+\((?!\?)")  # accuracy of accuracy ([0-9.]+)
_FILE_NAME = re.compile(r"""["']([\w./-]+\.[A-Za-z]\w*)["']""")


class Answers(Struct, frozen=True):
    """What ``init`` was told, or guesses: what runs what may change, what scores it, and how the number is read.

    ``run`` is started with the candidate and without the hidden files; ``outputs`` are the files that it leaves for the
    next command. ``timing`` is a command whose time is the number, and ``timing_outputs`` are those that it leaves.
    Where it names a hidden file, it finds the ``outputs`` beside those, and no other file of the candidate's.
    ``score`` finds those files beside the hidden ones, and none of the candidate's code. Where ``run`` is empty, the
    writable files are handed on as they are. ``query``, ``regex`` or ``timing`` gives the number.
    ``sees`` is that of ``run``.
    """

    name: str
    writable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    run: str = ""
    outputs: tuple[str, ...] = ()
    timing: str = ""
    timing_outputs: tuple[str, ...] = ()
    score: str = ""
    direction: str = ""
    query: str = ""
    regex: str = ""
    metric: str = ""
    sees: str = ""
    share: tuple[str, ...] = ()
    provider: str = ""
    branch_prefix: str = DEFAULT_BRANCH_PREFIX
    more: dict[str, Any] | None = None  # the keys that a person added to the manifest that init left


def guess_answers(folder: Path, paths: Sequence[str]) -> Answers:
    """Guesses from the committed ``paths`` below the manifest's folder, and from the texts of its scripts."""
    folders = {path.partition("/")[0] for path in paths if "/" in path}
    files = [PurePosixPath(path) for path in paths if "/" not in path]
    code = {file.stem.lower(): file.name for file in reversed(files) if file.suffix in _CODE}
    sources = [code[stem] for stem in _CHANGES if stem in code]
    sources += [f"{source}/**" for source in _SOURCE_FOLDERS if source in folders]
    runnable = [file for file in map(PurePosixPath, paths) if str(file.parent) in (".", *_JUDGE_FOLDERS)]
    runnable = sorted((file for file in runnable if file.suffix in _RUNNERS), key=lambda file: len(file.parts))
    judges = [str(file) for file in runnable if re.split(r"[_.-]", file.stem.lower())[0] in _JUDGES]
    hidden = [judge for judge in judges if "/" not in judge]
    hidden += [f"{name}/**" for name in _HIDDEN_FOLDERS if name in folders]
    python = own_python(folder)
    share = (PurePosixPath(python).parts[0],) if python and python not in paths else ()
    guess = Answers(project_name(folder.name), tuple(sources[:1]), tuple(hidden), share=share)
    program = sources[0] if sources and PurePosixPath(sources[0]).suffix in _RUNNERS else ""
    if not judges:
        return structs.replace(guess, run=_command_for(folder, program))
    text = _text(folder / judges[0])
    direction, query, regex = _reading(text)
    guess = structs.replace(guess, score=_command_for(folder, judges[0]), direction=direction, query=query, regex=regex)
    if not program:
        return guess
    named = [*dict.fromkeys(_FILE_NAME.findall(_text(folder / program)))]
    handed_on = tuple(name for name in named if name in text and name not in paths and not (folder / name).is_dir())
    if not handed_on and "/" not in judges[0] and re.search(rf"\b{re.escape(PurePosixPath(program).stem)}\b", text):
        # The judge imports or starts the program itself: it runs where no hidden file is.
        return structs.replace(guess, hidden=tuple(hidden[len(judges) :]), run=guess.score, score="")
    return structs.replace(guess, run=_command_for(folder, program), outputs=handed_on)


def own_python(folder: Path) -> str:
    """The interpreter of the project's own virtual environment, relative to its folder; "" where it has none."""
    return next((name for name in (".venv/bin/python", "venv/bin/python") if (folder / name).is_file()), "")


def with_own_python(command: str, folder: Path) -> str:
    """The command, with the project's own interpreter where it says ``python`` and PATH has none."""
    word, space, rest = command.partition(" ")
    is_missing = word in ("python", "python3") and shutil.which(word) is None
    return f"{own_python(folder)}{space}{rest}" if is_missing and own_python(folder) else command


def _command_for(folder: Path, script: str) -> str:
    """The command that runs a script; "" for none."""
    if not script:
        return ""
    runner = _RUNNERS[PurePosixPath(script).suffix]
    if runner == "python":
        runner = own_python(folder) or next(filter(shutil.which, ("python3", "python")), "python3")
    writes_json = "--output" in _text(folder / script)
    return f"{runner} {shlex.quote(script)}" + (' --output "$GOALSEEK_RUN_DIR/metrics.json"' if writes_json else "")


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def project_name(folder_name: str) -> str:
    """A folder's name as a project's: a-z, 0-9 and -."""
    return re.sub(r"[^a-z0-9]+", "-", folder_name.lower()).strip("-") or "project"


def _reading(text: str) -> tuple[str, str, str]:
    """Direction, query and regex of the number of a script with this text; empty where that cannot be told."""
    writes_json = "--output" in text or "GOALSEEK_RUN_DIR" in text
    for name, direction in _METRICS.items():
        if writes_json and re.search(rf"""["']{name}["']""", text):
            return direction, name, ""
        if not writes_json and re.search(rf"\b{name}: \{{", text):
            return direction, "", f"{name}: {_NUMBER}"
    return "", "", ""


HEAD_LINE = (
    "#:schema ./.goalseek/manifest.schema.json\n"
    "# What goalseek improves, and what it may change for that. Every key: goalseek help manifest\n"
)


_NOTHING = "true"  # the command that leaves the files as they are, for the next one to score
UNMEASURED = "# goalseek init found no number yet. Once it is mended and committed, goalseek init measures this again:"


def names_hidden(command: str, hidden: Sequence[str]) -> bool:
    """Whether a word of a command is a hidden file."""
    return parse_command(command).names(matcher(tuple(hidden)))


def answers_in(path: Path) -> Answers:
    """The answers in a manifest that ``init`` left without a number. Raises GoalseekError where it says more."""
    manifest = loading.load(path).manifest
    commands = {command.name: command for command in manifest.commands}
    run, timed, score = (commands.get(name, VerifyCommand(run="")) for name in ("run", "timing", "score"))
    answers = Answers(
        name=manifest.project.name,
        writable=manifest.scope.writable,
        hidden=manifest.scope.hidden,
        run="" if run.run == _NOTHING else str(run.run),
        outputs=run.outputs,
        timing=str(timed.run),
        timing_outputs=timed.outputs,
        score=str(score.run),
        direction=manifest.metric.direction,
        query=manifest.metric.query or "",
        regex=manifest.metric.regex or "",
        metric=manifest.metric.name,
        sees="both" if run.sees == "both" else "",
        share=manifest.scope.share,
        provider=manifest.provider.name if manifest.provider else "",
        branch_prefix=manifest.log.branch_prefix,
    )
    left = tomllib.loads(path.read_text("utf-8"))
    answers = structs.replace(answers, more=loading.added_keys(left, manifest_table(answers)))
    written, scope = check_manifest(path, manifest_table(answers)).manifest, manifest.scope
    if {*scope.generated} <= {*written.scope.generated}:  # outputs that a person has named since are generated
        scope = structs.replace(scope, generated=written.scope.generated)
    if structs.replace(manifest, scope=scope) != written:
        hint = "goalseek doctor measures it; or move it away, and begin anew with goalseek init"
        raise GoalseekError(f"{path} says more than goalseek init asks for", hint)
    return answers


def manifest_table(answers: Answers) -> dict[str, Any]:
    """The manifest as TOML has it, with what differs from the defaults only."""
    metric = {"direction": answers.direction}
    first_word = _WORD_BEFORE_GROUP.search(answers.regex) or re.match(r"([A-Za-z_]\w+)\s*[:=]", answers.regex)
    name = answers.metric or (first_word[1] if first_word else "run_time" if answers.timing else "")
    if name and name != answers.query:
        metric["name"] = name
    if answers.timing:
        metric |= {"source": "wall", "command": "timing"}
    else:
        metric |= {"query": answers.query} if answers.query else {"regex": answers.regex}
    commands: list[dict[str, Any]] = []
    if answers.run or answers.outputs:
        commands += [{"name": "run", "run": answers.run or _NOTHING, "sees": answers.sees, "outputs": answers.outputs}]
    if answers.timing:
        commands = [{**command, "once": True} for command in commands]
        sees = "hidden" if names_hidden(answers.timing, answers.hidden) else ""
        commands += [{"name": "timing", "run": answers.timing, "sees": sees, "outputs": answers.timing_outputs}]
    if answers.score:
        commands += [{"name": "score", "run": answers.score, "sees": "hidden"}]
    outputs = (*answers.outputs, *answers.timing_outputs)
    committed = {pattern.removeprefix("/") for pattern in answers.writable}
    scope = {
        "writable": answers.writable,
        "generated": tuple(pattern for pattern in outputs if pattern.removeprefix("/") not in committed),
        "hidden": answers.hidden,
        "share": answers.share,
    }
    plain: dict[str, Any] = {
        "version": 1,
        "project": {"name": answers.name},
        "scope": _without_empty(scope),
        "metric": metric,
        "verify": [_without_empty(command) for command in commands],
    }
    if answers.provider:
        plain["provider"] = {"name": answers.provider}
    if answers.branch_prefix != DEFAULT_BRANCH_PREFIX:
        plain["log"] = {"branch_prefix": answers.branch_prefix}
    return loading.with_added_keys(plain, answers.more or {})


def _without_empty(table: dict[str, Any]) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in table.items() if value}


def check_manifest(path: Path, plain: dict[str, Any]) -> ManifestFile:
    """The manifest that would be written. Raises GoalseekError naming what is wrong with an answer."""
    try:
        text = HEAD_LINE + loading.to_toml(plain)
        loaded = ManifestFile(path, validation.validate(path, text, plain), text)
    except GoalseekError as error:
        # The file is not there, so a line in it says nothing.
        message = re.sub(rf"^{re.escape(str(path))}:\d+: ", "", error.message, flags=re.MULTILINE)
        raise GoalseekError(message, "see: goalseek init --help; what no flag says is written by hand") from None
    if loaded.manifest.provider:
        make_permitted_provider(loaded, loaded.manifest.provider)
    return loaded


class WrongAnswer(GoalseekError):
    """An answer that is missing or does not fit; ``question`` is the field of the answers to give anew."""

    def __init__(self, question: str, message: str, hint: str = "", end: int = USAGE) -> None:
        super().__init__(message, hint, end)
        self.question = question


class NotMeasured(WrongAnswer):
    """Raised where the first measurement gives no number; ``share`` has the path that scope.share has to name."""

    def __init__(self, error: GoalseekError, question: str, share: str) -> None:
        super().__init__("share" if share else question, error.message, error.hint, error.exit_code)
        self.share = (share,) if share else ()


def takes_outputs(answers: Answers) -> bool:
    """Whether the timed command, or the one that scores, gets files of the one before it only as its ``outputs``."""
    return names_hidden(answers.timing, answers.hidden) if answers.timing else bool(answers.score)


def refuse_missing_outputs(answers: Answers) -> None:
    """Raises NotMeasured where no outputs are named and a command takes some."""
    if takes_outputs(answers) and not answers.outputs:
        then = answers.timing or answers.score
        message = f"no outputs are named: {then} gets only those files that {answers.run} leaves"
        hint = 'name them in [[verify]] "run", as outputs = ["predictions.csv"]; then goalseek init'
        raise NotMeasured(GoalseekError(message, hint), "outputs", "")


def measure_first(loaded: ManifestFile, watch: Observer) -> MeasuredValue:
    """Measures HEAD's tree once, as an iteration would, and records the measurement for the first baseline.

    Raises GoalseekError where something does not fit, and NotMeasured where there is no number.
    """
    with open_project(loaded, watch, doing="init") as project:
        project.is_committed_only = True
        check_fit(subject_of(project, "init"))
        target = baseline_target(Evaluation(project, project.config_of(loaded.manifest)))
        (run,) = measure_in_turn(project, [target], record=partial(record_number, project, "init"))
        number, evidence = run.number, run.evidence
        if isinstance(number, Failure):
            remedy = unseen_file_hint(project, loaded.manifest, evidence.verify, target.tree, trial_folder(project))
            error = baseline_error(number, trial_folder(project), "the first measurement", remedy)
            error.hint = _mend(loaded, number.reason, error.hint)
            folder = trial_folder(project)
            missing = find_missing_path(project, loaded.manifest, target.tree, folder, evidence.verify)
            raise NotMeasured(error, _question_of(number, evidence.verify), missing.place if missing else "")
        return number


def _question_of(failure: Failure, commands: Sequence[CommandRun]) -> str:
    """The answer that a failed measurement speaks against."""
    if failure.reason not in (Reason.VERIFY_FAILED, Reason.VERIFY_TIMEOUT) or not commands:
        return "reading"
    name = commands[-1].name
    if "left no output" in failure.why:
        return "timing_outputs" if name == "timing" else "outputs"
    return "score" if name in ("timing", "score") else "run"


def _mend(loaded: ManifestFile, reason: str, hint: str) -> str:
    """What to do about a measurement without a number."""
    metric = loaded.manifest.metric
    command = next(command for command in loaded.manifest.commands if command.name == metric.command)
    if reason == Reason.NO_METRIC and metric.source == "json" and "GOALSEEK_RUN_DIR" not in command.run:
        how = 'the command writes its JSON to "$GOALSEEK_RUN_DIR/metrics.json"'
        form = f"{metric.direction} {metric.name} /{metric.name} ([0-9.]+)/"
        return f"{how}; or read what it prints: answer the last question, or --metric, with {form}"
    return hint


def manifest_text(plain: dict[str, Any], problem: GoalseekError | None) -> str:
    """The manifest's text; what kept it from being measured is a comment in it."""
    if problem is None:
        return HEAD_LINE + loading.to_toml(plain)
    lines = f"{problem.message}\nWhat to do: {problem.hint}".splitlines()
    printable = ("".join(letter if letter.isprintable() else " " for letter in line) for line in lines)
    comment = "".join(f"#   {line}".rstrip() + "\n" for line in printable)
    return f"{HEAD_LINE}#\n{UNMEASURED}\n{comment}\n{loading.to_toml(plain)}"
