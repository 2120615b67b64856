"""The provider ``tune``: proposes values for marked constants, with Optuna's samplers: no model, key or network.

Each call builds a study from the records' titles: the same history gives the same proposal in any process.
"""

import importlib.util
import itertools
import math
import random
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from goalseek.errors import UNFIT, GoalseekError, Rejected
from goalseek.git.paths import quote_path
from goalseek.manifest.tables import ProviderTable
from goalseek.phase_values import Plan
from goalseek.providers import tunables
from goalseek.providers.preset import json_or_none
from goalseek.providers.provider import Call, Provider, Reply, WritableFile
from goalseek.providers.tunables import Constant, Value
from goalseek.values import Outcome, Reason, short_digest

Setting = dict[str, Value]

_STARTUP = 6
_ASKS = 10
_DRAWS = 200
_COUNTABLE = 10_000
_REFUSED = (Reason.GUARD, Reason.NOT_VALID)


class TuneProvider(Provider):
    name = "tune"
    repairs = False

    def __init__(self, table: ProviderTable, folder: Path) -> None:
        self.model = table.sampler
        self._seed = table.seed

    def check(self) -> None:
        for module in ("optuna", "cmaes") if self.model == "cmaes" else ("optuna",):
            if importlib.util.find_spec(module) is None:
                message = f"provider tune needs the package {module}, of the extra goalseek[tune]"
                raise GoalseekError(message, 'pip install "goalseek[tune]"', UNFIT)

    def look_over(self, files: Iterable[WritableFile]) -> str:
        constants = _constants_of({file.path: file.read() for file in files})
        return "; ".join((f"turns {', '.join(constants)}", *_notes_of_clamped(constants)))

    def plan(self, call: Call) -> Reply:
        """A setting that nobody tried or tries. Raises GoalseekError for bad marks, Rejected if all were tried."""
        constants = _constants_of(_contents_in_tree(call))
        present: Setting = {name: constant.domain.nearest(constant.value) for name, constant in constants.items()}
        history = sorted(call.history, key=lambda attempt: attempt.iteration)
        past = [(setting, attempt) for attempt in history if (setting := parse(attempt.title, constants))]
        pending = [setting for one in call.context.ahead if (setting := parse(one.title, constants))]
        sampler, note = self.model, []
        if sampler == "cmaes" and sum(not constant.domain.options for constant in constants.values()) < 2:
            sampler, note = "tpe", ["cmaes needs two numbers at least; tpe took its place."]
        seed = _digest(self._seed, call.context.attempt, len(past))
        known = [present, *_baseline_setting(call, constants), *(setting for setting, _ in past), *pending]
        told: list[tuple[Setting, float | None, str]] = [(present, call.context.incumbent_value, "COMPLETE")]
        for setting, attempt in past:
            if setting != present:
                state = "FAIL" if attempt.value is None else "PRUNED" if attempt.reason in _REFUSED else "COMPLETE"
                told.append((setting, attempt.value, state))
        told += ((setting, None, "RUNNING") for setting in pending)

        def ask(name: str, count: int) -> Setting | None:
            suggestions = _suggestions(name, (seed, self._seed), call.direction, constants, told, count)
            return next((setting for setting in suggestions if setting not in known), None)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            choice = ask(sampler, _ASKS) or _draw_from_few(constants, known, seed) or ask("random", _DRAWS)
        if choice is None:
            why = f"found no setting of {', '.join(constants)} that was not tried"
            raise Rejected(Outcome.SKIPPED, Reason.NO_PLAN, why)
        changed = [name for name in constants if choice[name] != constants[name].value]
        files = tuple(dict.fromkeys(constants[name].path for name in changed))
        lines = []
        for name, constant in constants.items():
            change = f" -> {tunables.format_value(choice[name])}" if name in changed else ", as before"
            lines.append(f"{name}: {tunables.format_value(constant.value)}{change}")
        return Reply(title(choice), "\n".join([*lines, *note, *_notes_of_clamped(constants)]), files)

    def apply(self, call: Call, plan: Plan) -> Reply:
        """Write the values of the plan's title. Raises Rejected if it does not name all of them."""
        changed = _rewrite(plan.title, _contents_in_tree(call))
        if changed is None:
            why = f"no value for each marked constant in the title {plan.title!r}"
            raise Rejected(Outcome.SKIPPED, Reason.NO_PLAN, why)
        for path, content in changed.items():
            (call.folder / path).write_bytes(content)
        return Reply(plan.title, plan.text, tuple(changed))

    def render(self, plan: Plan, files: Iterable[WritableFile]) -> dict[str, bytes] | None:
        return _rewrite(plan.title, {file.path: file.read() for file in files})


make = TuneProvider


def title(setting: Setting) -> str:
    """``RATE = 0.0316, DEPTH = 5``, as ``parse`` reads it."""
    return ", ".join(f"{name} = {tunables.format_value(value)}" for name, value in setting.items())


def parse(text: str, constants: Mapping[str, Constant]) -> Setting | None:
    """None unless the title has one allowed value for each constant, and nothing else."""
    names = "|".join(re.escape(name) for name in sorted(constants, key=len, reverse=True))
    assignment = re.compile(rf'({names}) = ("(?:[^"\\]|\\.)*"|[^",]+)(?:, |\Z)')
    setting: Setting = {}
    position = 0
    while position < len(text):
        match = assignment.match(text, position)
        if not match or match[1] in setting:
            return None
        domain = constants[match[1]].domain
        value = json_or_none(match[2]) if match[2].startswith('"') else domain.read(match[2])
        if value is None or not domain.holds(value):
            return None
        setting[match[1]] = value
        position = match.end()
    return {name: setting[name] for name in constants} if len(setting) == len(constants) else None


def _suggestions(
    sampler: str,
    seeds: tuple[int, int],  # of the proposal, and of the whole climb
    direction: str,
    constants: Mapping[str, Constant],
    told: list[tuple[Setting, float | None, str]],
    count: int,
) -> Iterator[Setting]:
    """Optuna's suggestions from a study, in memory, of the settings ``told``, the present one first."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    distributions: dict[str, Any] = {}
    for name, domain in ((name, constant.domain) for name, constant in constants.items()):
        low, high = int(domain.low), int(domain.high)
        if domain.options:
            distributions[name] = optuna.distributions.CategoricalDistribution(domain.options)
        elif domain.kind == "float":
            distributions[name] = optuna.distributions.FloatDistribution(domain.low, domain.high, log=domain.log)
        else:
            high -= (high - low) % domain.step
            distributions[name] = optuna.distributions.IntDistribution(low, high, domain.log, domain.step)
    samplers, seed = optuna.samplers, seeds[0]
    chosen: Any
    if sampler == "random":
        chosen = samplers.RandomSampler(seed=seed)
    else:
        chosen = samplers.TPESampler(seed=seed, n_startup_trials=_STARTUP, multivariate=True, constant_liar=True)
    if sampler == "cmaes":
        chosen = samplers.CmaEsSampler(
            x0={constant: value for constant, value in told[0][0].items() if not isinstance(value, str)},
            seed=_digest(seeds[1]) % 2**31,
            n_startup_trials=0,
            independent_sampler=chosen,
            warn_independent_sampling=False,
        )
    goal = optuna.study.StudyDirection[direction.upper()]
    study = optuna.create_study(direction=goal, sampler=chosen)
    for setting, value, state in told:
        if sampler == "cmaes" and state == "COMPLETE" and study.trials:
            # CMA-ES keeps its state in the trials that it was asked for, so each is asked for again.
            study.enqueue_trial(setting)
            study.tell(study.ask(distributions), value)
        else:
            result = value if state == "COMPLETE" else None
            trial_state = optuna.trial.TrialState[state]
            study.add_trial(
                optuna.trial.create_trial(params=setting, distributions=distributions, state=trial_state, value=result)
            )
    for _ in range(count):
        trial = study.ask(distributions)
        study.tell(trial, state=optuna.trial.TrialState.FAIL)
        yield {name: constant.domain.nearest(trial.params[name]) for name, constant in constants.items()}


def _rewrite(text: str, contents: Mapping[str, bytes]) -> dict[str, bytes] | None:
    """The files changed by the values in a title; None if it does not name all."""
    try:
        constants = _constants_of(contents)
    except GoalseekError:  # none is marked in these
        return None
    setting = parse(text, constants)
    if setting is None:
        return None
    changed = {}
    for path in dict.fromkeys(constant.path for constant in constants.values()):
        values = {constant: setting[name] for name, constant in constants.items() if constant.path == path}
        after = tunables.rewrite(contents[path], values)
        if after != contents[path]:
            changed[path] = after
    return changed


def _constants_of(contents: Mapping[str, bytes]) -> dict[str, Constant]:
    found = (constant for path, content in contents.items() for constant in tunables.find_constants(path, content))
    if constants := tunables.by_name(found):
        return constants
    hint = f"mark one by a comment, and commit it: {tunables.EXAMPLE}"
    raise GoalseekError("no constant is marked in the writable files", hint)


def _notes_of_clamped(constants: Mapping[str, Constant]) -> list[str]:
    return [
        f"{quote_path(path)}:{one.line}: {domain.nearest(one.value)} is used, as {one.value} is outside of {domain}"
        for one in constants.values()
        for path, domain in [(one.path, one.domain)]
        if not domain.holds(one.value)
    ]


def _contents_in_tree(call: Call) -> dict[str, bytes]:
    files = {path: call.folder / path for path in sorted(call.writable)}
    return {path: file.read_bytes() for path, file in files.items() if file.is_file() and not file.is_symlink()}


def _baseline_setting(call: Call, constants: Mapping[str, Constant]) -> list[Setting]:
    """The constants' values at the baseline, which no title names; none if it had other constants."""
    paths = dict.fromkeys(constant.path for constant in constants.values())
    try:
        marked = _constants_of({path: call.host.baseline_file(path) or b"" for path in paths})
    except GoalseekError:
        return []
    if marked.keys() != constants.keys():
        return []
    return [{name: constant.domain.nearest(marked[name].value) for name, constant in constants.items()}]


def _draw_from_few(constants: Mapping[str, Constant], known: list[Setting], seed: int) -> Setting | None:
    """None if there are too many settings to list. Raises Rejected if all were tried."""
    values = {name: constant.domain.values for name, constant in constants.items()}
    if math.prod(math.inf if options is None else len(options) for options in values.values()) > _COUNTABLE:
        return None
    every = (dict(zip(values, setting, strict=True)) for setting in itertools.product(*filter(None, values.values())))
    if rest := [setting for setting in every if setting not in known]:
        return random.Random(seed).choice(rest)
    raise Rejected(Outcome.SKIPPED, Reason.NO_PLAN, f"every setting of {', '.join(constants)} was tried")


def _digest(*parts: int) -> int:
    return int(short_digest(repr(parts))[:8], 16)
