"""The first manifest, for ``init``: guesses from file names and texts, the user's answers, and a measurement.

A guess is only a default: a person sees it, or accepts it with ``--yes``.
"""

import json
import math
import os
import re
import shlex
import shutil
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec import Struct, structs

from goalseek.doctor import checks, diagnose
from goalseek.errors import USAGE, GoalseekError
from goalseek.evaluation import measurements
from goalseek.git.ignore import matcher
from goalseek.git.repository import DEFAULT_BRANCH_PREFIX
from goalseek.manifest import command_words, loading, validation
from goalseek.manifest.loading import ManifestFile
from goalseek.manifest.tables import Manifest, VerifyCommand
from goalseek.measurement.metric import NoNumber, find_cases
from goalseek.phase_values import Failure
from goalseek.project.activity import Observer
from goalseek.project.opening import open_project
from goalseek.providers.registry import make_permitted_provider
from goalseek.values import Reason

_CODE = frozenset(".py .js .ts .c .cc .cpp .rs .go .java .rb .jl .r .sh .sql .txt .md".split())
_CHANGES = "experiment solution candidate train training model classifier solver main prompt".split()
_JUDGES = "validate verify score judge evaluate evaluation eval grade check verifier scorer benchmark bench".split()
_JUDGE_FOLDERS = "hidden holdout private verifier".split()
_MAXIMIZED = "accuracy score f1 auc throughput".split()
_MINIMIZED = "loss error rmse seconds bytes".split()
_RUNNERS = {".py": "python", ".sh": "sh", ".js": "node", ".rb": "ruby", ".jl": "julia", ".r": "Rscript"}
_MIN_CASES = 8
_IDS, _SCORES = "id name case test key".split(), "score passed correct success ok reward".split()
_NOTHING = "true"  # the command that leaves the files as they are, for the next one to score
_NUMBER = r"([-+.\deE]+)"
_WORD_BEFORE_GROUP = re.compile(r"(?<![\\\w])([A-Za-z_]\w+)(?:\\s|[\s:=*+])+\((?!\?)")  # accuracy of accuracy ([0-9.]+)
_FILE_NAME = re.compile(r"""["']([\w./-]+\.[A-Za-z]\w*)["']""")
HEAD_LINE = (
    "#:schema ./.goalseek/manifest.schema.json\n"
    "# What goalseek improves, and what it may change for that. Every key: goalseek help manifest\n"
)
UNMEASURED = "# goalseek init found no number yet. Once it is mended and committed, goalseek init measures this again:"


class Answers(Struct, frozen=True):
    """The user's answers to ``init``, or guesses; ``query``, ``regex``, ``cases`` or ``timing`` gives the number."""

    name: str
    writable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    run: str = ""  # sees no hidden file; if "", the writable files are its outputs
    outputs: tuple[str, ...] = ()  # of ``run``, for the next command
    timing: str = ""  # its time is the number; if it names a hidden file, it sees those and ``outputs`` only
    timing_outputs: tuple[str, ...] = ()
    score: str = ""  # sees hidden files and outputs, and none of the candidate's code
    direction: str = ""
    query: str = ""
    regex: str = ""
    cases: str = ""  # with ``query`` if that is their mean
    metric: str = ""
    sees: str = ""  # of ``run``
    share: tuple[str, ...] = ()
    provider: str = ""
    branch_prefix: str = DEFAULT_BRANCH_PREFIX
    more: dict[str, Any] | None = None  # the keys that a person added to the manifest that init left


def guess_answers(folder: Path, paths: Sequence[str]) -> Answers:
    """Guess from the committed ``paths`` below the manifest's folder, and from its scripts' texts."""
    folders = {path.partition("/")[0] for path in paths if "/" in path}
    files = [PurePosixPath(path) for path in paths if "/" not in path]
    code = {file.stem.lower(): file.name for file in reversed(files) if file.suffix in _CODE}
    sources = [code[stem] for stem in _CHANGES if stem in code]
    sources += [f"{source}/**" for source in ("src", "lib") if source in folders]
    runnable = [file for file in map(PurePosixPath, paths) if str(file.parent) in (".", *_JUDGE_FOLDERS)]
    runnable = sorted((file for file in runnable if file.suffix in _RUNNERS), key=lambda file: len(file.parts))
    judges = [str(file) for file in runnable if re.split(r"[_.-]", file.stem.lower())[0] in _JUDGES]
    hidden = [judge for judge in judges if "/" not in judge]
    hidden += [f"{name}/**" for name in (*_JUDGE_FOLDERS, "tests", "test") if name in folders]
    python = own_python(folder)
    share = (PurePosixPath(python).parts[0],) if python and python not in paths else ()
    name = re.sub(r"[^a-z0-9]+", "-", folder.name.lower()).strip("-") or "project"
    guess = Answers(name, tuple(sources[:1]), tuple(hidden), share=share)
    program = sources[0] if sources and PurePosixPath(sources[0]).suffix in _RUNNERS else ""
    scripts = [path for path in (program, *judges[:1]) if path and is_readable(folder / path)]
    texts = {path: (folder / path).read_text("utf-8", "replace") for path in scripts}

    def command_for(script: str) -> str:
        runner = _RUNNERS[PurePosixPath(script).suffix]
        if runner == "python":
            runner = python or next(filter(shutil.which, ("python3", "python")), "python3")
        writes_json = ' --output "$GOALSEEK_RUN_DIR/metrics.json"' if "--output" in texts.get(script, "") else ""
        return f"{runner} {shlex.quote(script)}{writes_json}"

    run = command_for(program) if program else ""
    if not judges:
        return structs.replace(guess, run=run)
    text = texts.get(judges[0], "")
    guess = structs.replace(guess, score=command_for(judges[0]))
    writes_json = "--output" in text or "GOALSEEK_RUN_DIR" in text
    for metric in (*_MAXIMIZED, *_MINIMIZED):
        if re.search(rf"""["']{metric}["']""" if writes_json else rf"\b{metric}: \{{", text):
            query, regex = (metric, "") if writes_json else ("", f"{metric}: {_NUMBER}")
            direction = "maximize" if metric in _MAXIMIZED else "minimize"
            guess = structs.replace(guess, direction=direction, query=query, regex=regex)
            break
    if not program:
        return guess
    named = dict.fromkeys(_FILE_NAME.findall(texts.get(program, "")))
    handed_on = tuple(name for name in named if name in text and name not in paths and not (folder / name).is_dir())
    if not handed_on and "/" not in judges[0] and re.search(rf"\b{re.escape(PurePosixPath(program).stem)}\b", text):
        # The judge imports or starts the program itself, so it runs without hidden files.
        return structs.replace(guess, hidden=tuple(hidden[len(judges) :]), run=guess.score, score="")
    return structs.replace(guess, run=run, outputs=handed_on)


def is_readable(path: Path) -> bool:
    return os.access(path, os.R_OK) and path.is_file()  # a committed file may be missing, or locked


def own_python(folder: Path) -> str:
    """The interpreter of the project's virtual environment, relative to its folder; "" if it has none."""
    return next((name for name in (".venv/bin/python", "venv/bin/python") if (folder / name).is_file()), "")


def with_own_python(command: str, folder: Path) -> str:
    """The command, with the project's interpreter if it says ``python`` and PATH has none."""
    word, space, rest = command.partition(" ")
    is_missing = word in ("python", "python3") and shutil.which(word) is None
    return f"{own_python(folder)}{space}{rest}" if is_missing and own_python(folder) else command


def names_hidden(command: str, hidden: Sequence[str]) -> bool:
    return command_words.parse_command(command).names(matcher(tuple(hidden)))


def answers_in(path: Path) -> Answers:
    """The answers in a manifest that ``init`` left without a number. Raises GoalseekError if it says more."""
    loaded = loading.load(path)
    manifest = loaded.manifest
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
        cases=manifest.metric.cases or "",
        metric=manifest.metric.name,
        sees="both" if run.sees == "both" else "",
        share=manifest.scope.share,
        provider=manifest.provider.name if manifest.provider else "",
        branch_prefix=manifest.log.branch_prefix,
    )
    answers = structs.replace(answers, more=loading.added_keys(tomllib.loads(loaded.text), manifest_table(answers)))
    written, scope = check_manifest(path, answers).manifest, manifest.scope
    if {*scope.generated} <= {*written.scope.generated}:  # outputs that a person has named since are generated
        scope = structs.replace(scope, generated=written.scope.generated)
    if structs.replace(manifest, scope=scope) != written:
        hint = "goalseek doctor measures it; or move it away, then goalseek init"
        raise GoalseekError(f"{path} has keys that goalseek init does not ask for", hint)
    return answers


def manifest_table(answers: Answers) -> dict[str, Any]:
    """TOML's tables of the manifest, without defaults."""

    def table(**values: Any) -> dict[str, Any]:
        return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items() if value}

    commands = []
    if answers.run or answers.outputs:
        run, is_once = answers.run or _NOTHING, bool(answers.timing)
        commands += [table(name="run", run=run, sees=answers.sees, outputs=answers.outputs, once=is_once)]
    if answers.timing:
        sees = "hidden" if names_hidden(answers.timing, answers.hidden) else ""
        commands += [table(name="timing", run=answers.timing, sees=sees, outputs=answers.timing_outputs)]
        reading = {"source": "wall", "command": "timing"}
    else:
        reading = {"query": answers.query, "regex": "" if answers.query else answers.regex, "cases": answers.cases}
    if answers.score:
        commands += [table(name="score", run=answers.score, sees="hidden")]
    first_word = _WORD_BEFORE_GROUP.search(answers.regex) or re.match(r"([A-Za-z_]\w+)\s*[:=]", answers.regex)
    name = answers.metric or (first_word[1] if first_word else "run_time" if answers.timing else "")
    committed = {pattern.removeprefix("/") for pattern in answers.writable}
    outputs = (*answers.outputs, *answers.timing_outputs)
    generated = tuple(pattern for pattern in outputs if pattern.removeprefix("/") not in committed)
    prefix = answers.branch_prefix if answers.branch_prefix != DEFAULT_BRANCH_PREFIX else ""
    plain = table(
        version=1,
        project={"name": answers.name},
        scope=table(writable=answers.writable, generated=generated, hidden=answers.hidden, share=answers.share),
        metric=table(direction=answers.direction, name=name if name != answers.query else "", **reading),
        verify=commands,
        provider=table(name=answers.provider),
        log=table(branch_prefix=prefix),
    )
    return loading.with_added_keys(plain, answers.more or {})


def check_manifest(path: Path, answers: Answers) -> ManifestFile:
    """The manifest to be written. Raises GoalseekError naming the wrong answer."""
    plain = manifest_table(answers)
    try:
        text = HEAD_LINE + loading.to_toml(plain)
        loaded = ManifestFile(path, validation.validate(path, text, plain), text)
    except GoalseekError as error:
        # The file is not there, so a line in it says nothing.
        message = re.sub(rf"^{re.escape(str(path))}:\d+: ", "", error.message, flags=re.MULTILINE)
        raise GoalseekError(message, "see: goalseek init --help; write other keys by hand") from None
    if loaded.manifest.provider:
        make_permitted_provider(loaded, loaded.manifest.provider)
    return loaded


def text_with_problem(loaded: ManifestFile, problem: GoalseekError) -> str:
    lines = f"{problem.message}\nWhat to do: {problem.hint}".splitlines()
    printable = ("".join(letter if letter.isprintable() else " " for letter in line) for line in lines)
    comment = "".join(f"#   {line}".rstrip() + "\n" for line in printable)
    return f"{HEAD_LINE}#\n{UNMEASURED}\n{comment}\n{loaded.text.removeprefix(HEAD_LINE)}"


class WrongAnswer(GoalseekError):
    """An answer that is missing, does not fit, or gives no number."""

    def __init__(self, question: str, message: str, hint: str, end: int = USAGE, share: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint, end)
        self.question = question  # the field of the answers to ask again
        self.share = share  # missing in scope.share


def takes_outputs(answers: Answers) -> bool:
    """Whether the last command sees files of the one before it only as its ``outputs``."""
    return names_hidden(answers.timing, answers.hidden) if answers.timing else bool(answers.score)


def measure_first(
    loaded: ManifestFile, watch: Observer
) -> tuple[measurements.MeasuredValue | WrongAnswer, list[Path], dict[str, str]]:
    """Measure and record HEAD's tree for the first baseline; also returns writable files with uncommitted changes.

    The last are the answers of ``guess_cases``. Raises GoalseekError if a check fails.
    """
    with open_project(loaded, watch, doing="init", is_trial=True) as project:
        project.is_committed_only = True
        checks.check_fit(checks.subject_of(project, "init"))
        config, folder = project.config_of(loaded.manifest), measurements.trial_folder(project)
        target = measurements.baseline_target(project, config)
        (run,) = measurements.measure_in_turn(project, [target], asked_by="init")
        number, commands = run.number, run.evidence.verify
        scored = guess_cases(loaded.manifest, folder, None if isinstance(number, Failure) else number.value)
        if not isinstance(number, Failure):
            changed = [path for _, path in project.repository.changed_files() if config.scope.kind(path) == "writable"]
            return number, [project.repository.top / path for path in changed], scored
        remedy = diagnose.unseen_file_hint(project, loaded.manifest, commands, target.tree, folder)
        error = measurements.baseline_error(number, folder, "the first measurement", remedy)
        missing = diagnose.find_missing_path(project, loaded.manifest, target.tree, folder, commands)
        hint, metric = error.hint, loaded.manifest.metric
        command = next(command for command in loaded.manifest.commands if command.name == metric.command)
        if number.reason == Reason.NO_METRIC and metric.source == "json" and "GOALSEEK_RUN_DIR" not in command.run:
            how = 'the command writes its JSON to "$GOALSEEK_RUN_DIR/metrics.json"'
            form = f"{metric.direction} {metric.name} /{metric.name}\\W+([0-9.]+)/"
            hint = f"{how}; or read its output, by the answer to the last question, or --metric: {form}"
        name = commands[-1].name if commands else ""
        if missing and missing.place:
            question = "share"
        elif number.reason not in (Reason.VERIFY_FAILED, Reason.VERIFY_TIMEOUT) or not commands:
            question = "reading"
        elif "left no output" in number.why:
            question = "timing_outputs" if name == "timing" else "outputs"
        else:
            question = "score" if name in ("timing", "score") else "run"
        share = (missing.place,) if missing and missing.place else ()
        wrong = WrongAnswer(question, error.message, hint, error.exit_code, share)
        return wrong, [], scored if wrong.question == "reading" else {}


def guess_cases(manifest: Manifest, folder: Path, number: float | None) -> dict[str, str]:
    """The answers that change if the metric is the mean of the cases that were measured; {} without clear cases.

    A ``number`` has to be their mean, sum or percentage; without one, the scores have a known name, or are shares. A
    simple command that prints JSON gets a file for it.
    """
    metric, command, written = manifest.metric, manifest.commands[-1], folder / "measurements/1" / manifest.metric.path
    printed = measurements.printed_in(folder).rpartition(f"$ {command.text}\n")[2].partition(f"[{command.name} ")[0]
    is_simple = command.name in ("run", "score") and not re.search(r"[;&|<>\n]", command.text)
    answers = {} if written.is_file() else {command.name: f'{command.text} > "$GOALSEEK_RUN_DIR/{metric.path}"'}
    try:
        document = json.loads(printed if answers and is_simple else written.read_bytes())
    except (OSError, ValueError):
        return {}

    def scores_of(query: str) -> list[float]:
        try:
            found = find_cases(structs.replace(metric, cases=query), document)
        except NoNumber:
            return []
        return [score for score in found.values() if score is not None]

    names, most = dict[str, str](), _MIN_CASES - 1  # of the scores, by query
    for path, node in _inner(document):
        if isinstance(node, dict):
            names[path or "@"] = ""
        elif isinstance(node, list) and node:
            keys = [key for key, value in _inner(node[0]) if key and not isinstance(value, dict)]
            keys.sort(key=lambda key: (key not in _IDS) + 2 * (key in _SCORES))
            own = next((key for key in keys if scores_of(f"{path}[*].{{id: {key}, score: `0`}}")), "")
            names |= {f"{path}[*].{{id: {own}, score: {key}}}": key for key in keys if own not in ("", key)}
    for query, key in names.items():
        scores, name = scores_of(query), key.rpartition(".")[2]
        mean = math.fsum(scores) / max(1, len(scores))
        fits = [math.isclose(number or 0.0, mean * by, rel_tol=1e-3) for by in (1, len(scores), 100)]
        is_clear = any(fits) if number is not None else name in _SCORES or (not name and max(scores, default=2) <= 1)
        if is_clear and len(scores) > most:
            is_mean = number is not None and math.isclose(number, mean, rel_tol=1e-6)
            name, most = name or "score" if metric.name == "metric" else metric.name, len(scores)
            answers |= {"cases": query, "query": metric.query or "" if is_mean else "", "regex": "", "metric": name}
    return answers if "cases" in answers else {}


def _inner(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The node and all that its objects hold, by JMESPath."""
    yield path, node
    for key, value in node.items() if isinstance(node, dict) else ():
        name = key if re.fullmatch(r"[A-Za-z_]\w*", key, re.ASCII) else json.dumps(key)
        yield from _inner(value, f"{path}.{name}".lstrip("."))
