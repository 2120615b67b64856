"""The accept rule and the steps of a measurement in words, as far as an agent may know them."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterator

from goalseek.humanize import format_duration, parse_share
from goalseek.ledger.standing import Standing
from goalseek.manifest.command_words import words_in
from goalseek.manifest.tables import Manifest, Metric, VerifyCommand
from goalseek.measurement.verifier import timeout_of
from goalseek.statistics.acceptance import format_range
from goalseek.statistics.noise import NoiseState, scale_of, spread
from goalseek.statistics.noise_report import POWER
from goalseek.workspace.scope import Scope

RUN_IT_TOO = " You can run it too."
_RUN_LENGTH = 500
_UNSEEN = {
    "candidate": "- A command that you cannot see runs the changed files.",
    "both": "- A verifier that you cannot see runs the changed files beside files that you cannot see either.",
    "hidden": "- A verifier that you cannot see scores the result.",
}
_READ_FROM = {
    "json": "{} is read from $GOALSEEK_RUN_DIR/{}",
    "stdout": "{} is read from what it prints",
    "stderr": "{} is read from what it prints",
    "wall": "{} is its running time",
    "cpu": "{} is the processor time that it and its children take",
}


def describe_rule(metric: Metric, state: NoiseState) -> str:
    """When a change is kept, and how large a gain can be seen, in sentences for its author."""
    better = "higher" if metric.direction == "maximize" else "lower"
    margin = f", by at least {metric.min_delta}" if metric.min_delta else ""
    if _is_noisy(metric, state):
        sentences = [f"A change is kept if repeated runs show that it makes {metric.name} {better}{margin}."]
        sd = _sd_in_units(metric, state)
        if sd > 0:
            (half, _), (nearly_all, _) = POWER[0], POWER[-1]
            sentences.append(
                f"Runs of the same code differ with a standard deviation of about {sd:.2g}: a true gain of "
                f"{half * sd:.2g} is recognized about half of the time, one of {nearly_all * sd:.2g} nearly always. "
                "A smaller one looks like noise and is reverted."
            )
        if not metric.allow_fixed_seed:
            sentences.append("Do not fix a random seed: a change whose runs then agree to the last bit is reverted.")
    else:
        sentences = [f"A change is kept if it makes {metric.name} {better}{margin}."]
        if state.agreed:
            enough = "" if metric.min_delta else ", so any gain counts"
            sentences.append(f"The same code always gives the same number{enough}.")
        sentences.append("At exactly the same number, a change is kept only if it leaves fewer lines.")
    if metric.valid:
        sentences.append(f"{metric.name} is valid in this range only: {format_range(metric.valid)}.")
    return " ".join(sentences)


def describe_smallest_gain(metric: Metric, state: NoiseState) -> str:
    """The smallest gain that the rule recognizes, for an author who looks for it before the measurement."""
    least = parse_share(metric.min_delta, abs(state.value or 0.0))
    sd = _sd_in_units(metric, state) if _is_noisy(metric, state) else 0.0
    if sd == 0:
        return f"{least:.2g}" if least else "any"
    half, nearly_all = (max(least, effect * sd) for effect, _ in (POWER[0], POWER[-1]))
    return f"{nearly_all:.2g} nearly always, {half:.2g} about half of the time"


def _is_noisy(metric: Metric, state: NoiseState) -> bool:
    return metric.noise == "always" or (metric.noise == "auto" and state.differed)


def _sd_in_units(metric: Metric, state: NoiseState) -> float:
    """The standard deviation of one run of the same code, in the metric's units; 0 where it is not known."""
    scale = scale_of(metric.direction, state.all_positive)
    sd = spread(scale, state.pairs, [run.value for run in state.incumbent])
    return sd * abs(state.value or 0.0) if scale.logarithmic else sd


def describe_measurement(manifest: Manifest, standing: Standing, scope: Scope) -> Iterator[str]:
    """The steps of a measurement: commands that see the candidate alone as they are; of others only that they exist."""
    metric, seconds = manifest.metric, standing.baseline.seconds if standing.baseline else {}
    previous = ""
    for command in manifest.commands:
        line = _UNSEEN[command.sees or "both"]
        if command.sees == "candidate" and not _names_hidden(command, manifest, scope):
            run = command.run if isinstance(command.run, str) else shlex.join(command.run)
            facts = [f"in {command.cwd}"] if command.cwd != "." else []
            if command.name in seconds:
                facts.append(f"{format_duration(seconds[command.name])} at the baseline")
            if timeout := timeout_of(command, seconds):
                facts.append(f"stopped after {format_duration(timeout)}")
            if command.network:
                facts.append("with a network")
            if command.name == metric.command:
                facts.append(_READ_FROM[metric.source or "json"].format(metric.name, metric.path))
            shown = run if len(run) <= _RUN_LENGTH else run[: _RUN_LENGTH - 1] + "…"
            line = f"- `{shown}`{' (' + ', '.join(facts) + ')' if facts else ''}.{RUN_IT_TOO}"
        if line != previous:
            yield line
        previous = line
    if not any(command.network for command in manifest.commands):
        yield "- The measurement has no network."


def _names_hidden(command: VerifyCommand, manifest: Manifest, scope: Scope) -> bool:
    """Whether the words of a command may name a hidden file or its folder, so that the agent must not read them."""
    outside = manifest.scope.hidden_from
    if outside and outside in command.text:
        return True
    for word in words_in(f"{command.text} {command.cwd}"):
        for path in (word, posixpath.join(command.cwd, word)):
            inside = scope.prefix + posixpath.normpath(path)
            if "hidden" in (scope.kind(inside), scope.kind(f"{inside}/x")):
                return True
    return False
