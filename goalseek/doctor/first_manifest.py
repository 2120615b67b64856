"""The first manifest, for ``init``: guesses from file names and texts, the user's answers, and a first measurement.

A guess is only a default: a person sees it, or accepts it with ``--yes``. The manifest is written once it has a number.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from goalseek.doctor.diagnose import unseen_file_hint
from goalseek.errors import GoalseekError
from goalseek.evaluation.measurements import (
    Evaluation,
    MeasuredValue,
    baseline_error,
    baseline_target,
    measure_target,
    number_in,
    record_measurement,
    trial_folder,
    unused_seed,
)
from goalseek.manifest import loading, validation
from goalseek.manifest.loading import ManifestFile
from goalseek.phase_values import Verdict
from goalseek.project.fitness import check_fit
from goalseek.project.observer import Observer
from goalseek.project.opening import open_project
from goalseek.providers.registry import make_permitted_provider
from goalseek.values import DataClass, Reason

_CODE = frozenset(".py .js .ts .c .cc .cpp .rs .go .java .rb .jl .r .sh .sql .txt .md".split())
_CHANGES = "experiment solution candidate train training model classifier solver main prompt".split()
_JUDGES = "validate verify score judge evaluate evaluation eval grade check verifier scorer benchmark bench".split()
_HIDDEN_FOLDERS = "hidden holdout private verifier tests test".split()
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


class Guess(DataClass):
    """Defaults for the five questions; empty where there is no guess."""

    name: str
    writable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    run: str = ""
    reading: str = ""


def guess_answers(folder_name: str, paths: Sequence[str], read: Callable[[str], str]) -> Guess:
    """Guesses from the committed paths below the manifest's folder; ``read`` gives a file's text."""
    folders = {path.partition("/")[0] for path in paths if "/" in path}
    files = [PurePosixPath(path) for path in paths if "/" not in path]
    code = {file.stem.lower(): file.name for file in reversed(files) if file.suffix in _CODE}
    sources = [code[stem] for stem in _CHANGES if stem in code]
    sources += [f"{folder}/**" for folder in _SOURCE_FOLDERS if folder in folders]
    runnable = [file for file in files if file.suffix in _RUNNERS]
    judges = [file for file in runnable if re.split(r"[_.-]", file.stem.lower())[0] in _JUDGES]
    hidden = [file.name for file in judges] + [f"{folder}/**" for folder in _HIDDEN_FOLDERS if folder in folders]
    text = read(judges[0].name) if judges else ""
    run = f"{_RUNNERS[judges[0].suffix]} {shlex.quote(judges[0].name)}" if judges else ""
    if "--output" in text:
        run += ' --output "$GOALSEEK_RUN_DIR/metrics.json"'
    return Guess(project_name(folder_name), tuple(sources[:1]), tuple(hidden), run, _reading(text))


def project_name(folder_name: str) -> str:
    """A folder's name as a project's: a-z, 0-9 and -."""
    return re.sub(r"[^a-z0-9]+", "-", folder_name.lower()).strip("-") or "project"


def _reading(text: str) -> str:
    """How the number of a script with this text is read; "" where that cannot be told."""
    writes_json = "--output" in text or "GOALSEEK_RUN_DIR" in text
    for name, direction in _METRICS.items():
        if writes_json and re.search(rf"""["']{name}["']""", text):
            return f"{direction} {name}"
        if not writes_json and re.search(rf"\b{name}: \{{", text):
            return f"{direction} /{name}: {_NUMBER}/"
    return ""


HEAD_LINE = (
    "#:schema ./.goalseek/manifest.schema.json\n"
    "# What goalseek climbs, and what it may change on the way. Every key: goalseek manifest schema\n"
)


class Answers(DataClass):
    """The five answers: name, globs that may change, globs that stay hidden, the command, how to read its number.

    One of ``query`` and ``regex`` is given. ``sees`` is empty for the usual: both where something is hidden.
    """

    name: str
    writable: tuple[str, ...]
    hidden: tuple[str, ...]
    run: str
    direction: str
    query: str = ""
    regex: str = ""
    metric: str = ""
    sees: str = ""
    provider: str = ""


def parse_reading(text: str) -> tuple[str, str, str]:
    """Direction, query and regex of ``maximize accuracy`` or ``minimize /took ([0-9.]+)s/``.

    Raises GoalseekError where the text is neither.
    """
    match = re.fullmatch(r"\s*(maximize|minimize)\s*[\s:]\s*(\S.*?)\s*", text)
    if not match:
        hint = "maximize accuracy (in metrics.json), or minimize /took ([0-9.]+)s/ (in what the command prints)"
        raise GoalseekError(f"{text!r} does not say how to read the number", hint)
    source = match[2]
    if len(source) > 2 and source.startswith("/") and source.endswith("/"):
        return match[1], "", source[1:-1]
    return match[1], source, ""


def manifest_table(answers: Answers) -> dict[str, Any]:
    """The manifest as TOML has it, with what differs from the defaults only."""
    metric = {"direction": answers.direction}
    first_word = re.match(r"([A-Za-z_]\w+)\s*[:=]", answers.regex)  # accuracy of accuracy: ([0-9.]+)
    name = answers.metric or (first_word[1] if first_word else "")
    if name and name != answers.query:
        metric["name"] = name
    metric |= {"query": answers.query} if answers.query else {"regex": answers.regex}
    sees = answers.sees or ("both" if answers.hidden else "")
    plain: dict[str, Any] = {
        "version": 1,
        "project": {"name": answers.name},
        "scope": {"writable": list(answers.writable)},
        "metric": metric,
        "verify": [{"run": answers.run, **({"sees": sees} if sees else {})}],
    }
    if answers.hidden:
        plain["scope"]["hidden"] = list(answers.hidden)
    if answers.provider:
        plain["provider"] = {"name": answers.provider}
    return plain


def check_manifest(path: Path, plain: dict[str, Any]) -> ManifestFile:
    """The manifest that would be written. Raises GoalseekError naming what is wrong with an answer."""
    try:
        text = HEAD_LINE + loading.to_toml(plain)
        return ManifestFile(path, validation.validate(path, text, plain), text)
    except GoalseekError as error:
        # The file is not there, so a line in it says nothing.
        message = re.sub(rf"^{re.escape(str(path))}:\d+: ", "", error.message, flags=re.MULTILINE)
        raise GoalseekError(message, "see: goalseek init --help; what no flag says is written by hand") from None


def try_and_write(loaded: ManifestFile, plain: dict[str, Any], watch: Observer) -> MeasuredValue:
    """Measures HEAD's tree once, as an iteration would, writes the manifest, and records the measurement.

    The first baseline uses that record. Raises GoalseekError where something does not fit or there is no number: then
    nothing is written.
    """
    with open_project(loaded, watch, doing="init") as project:
        check_fit(project)
        if loaded.manifest.provider:
            make_permitted_provider(loaded, loaded.manifest.provider)
        target = baseline_target(Evaluation(project, project.config_of(loaded.manifest)))
        evidence = measure_target(project, target, unused_seed(project))
        number = number_in(target, evidence)
        if isinstance(number, Verdict):
            remedy = unseen_file_hint(project, loaded.manifest, evidence.verify, target.tree, trial_folder(project))
            error = baseline_error(number.why, trial_folder(project), remedy=remedy)
            raise GoalseekError(error.message, _mend(loaded, number.reason, error.hint), error.exit_code)
        loading.write(loaded.path, plain, HEAD_LINE)
        record_measurement(project, target, number, "init")
        return number


def _mend(loaded: ManifestFile, reason: str, hint: str) -> str:
    metric, command = loaded.manifest.metric, loaded.manifest.verify[0]
    if reason == Reason.NO_METRIC and metric.source == "json" and "GOALSEEK_RUN_DIR" not in command.run:
        return (
            'the command writes its JSON to "$GOALSEEK_RUN_DIR/metrics.json"; or read what it prints: '
            "--regex 'accuracy: ([0-9.]+)'"
        )
    return hint
