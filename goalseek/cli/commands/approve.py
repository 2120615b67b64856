"""``goalseek approve`` and ``goalseek decline``: a person's answer for the iteration that waits for approval."""

from __future__ import annotations

import argparse
from pathlib import Path

from goalseek.cli.options import load_manifest
from goalseek.cli.output import print_json, wants_json
from goalseek.errors import GoalseekError
from goalseek.ledger.results_file import History, load_standing
from goalseek.ledger.standing import Standing
from goalseek.locks import last_manifest, lock_holder
from goalseek.manifest.loading import ManifestFile, with_manifest_option
from goalseek.project.approval import Approval, Question, commands_for, open_question, save_approval
from goalseek.project.opening import open_repository
from goalseek.project.paths import manifest_of_running_climb
from goalseek.project.stop import read_pending_run
from goalseek.values import Outcome
from goalseek.views.terminal_text import one_line


def arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of both commands."""
    parser.add_argument("iteration", type=int, metavar="N", help="the iteration that waits")
    other = "approve" if parser.prog.endswith("decline") else "decline"
    parser.epilog = f"A verdict that rejects stays one: then this only lets the climb go on, as {other} does."


def run(options: argparse.Namespace) -> int:
    """Stores the answer of the command that was called."""
    return save_answer(options, options.command_name)


def save_answer(options: argparse.Namespace, approval: Approval) -> int:
    """Stores the answer. Raises GoalseekError for an iteration that does not wait for one."""
    manifest = manifest_of_running_climb(load_manifest(options))
    history = History(manifest.results)
    standing = load_standing(manifest)
    repository = open_repository(manifest)
    try:
        run_id, holder = read_pending_run(repository.own) or standing.run_id, lock_holder(repository.own)
        last = Path(last_manifest(repository.own))
    finally:
        repository.close()
    question = open_question(manifest.manifest, manifest.runs, standing, run_id)
    if question is None or question.iteration != options.iteration:
        refusal = _refusal(manifest, history, standing, question, options.iteration, approval)
        if question is None and last.name and last != manifest.path.resolve():
            refusal.hint += f"; the climb was last at work in {last.parent}"
        raise refusal
    save_approval(manifest.logs, question, approval)
    if wants_json(options):
        fields = {
            "iteration": question.iteration,
            "word": approval,
            "commit": question.commit,
            "holder": str(holder) if holder else None,
        }
        print_json(options, {**fields, "outcome": _outcome(question, approval), "why": question.verdict.why})
    else:
        goes_on = f"{holder} goes on" if holder else with_manifest_option("goalseek iterate goes on", options.manifest)
        why = one_line(question.verdict.why)
        print(f"iteration {question.iteration} will be {_outcome(question, approval)}: {why}; {goes_on}")
    return 0


def _outcome(question: Question, approval: Approval) -> str:
    return Outcome.KEPT if question.verdict and approval == "approve" else Outcome.REVERTED


def _refusal(
    manifest: ManifestFile,
    history: History,
    standing: Standing,
    question: Question | None,
    number: int,
    approval: Approval,
) -> GoalseekError:
    """The error that says why this iteration cannot be approved or declined."""
    recorded = history.iteration(number) if 0 <= number <= standing.last_iteration else None
    prefix = f"goalseek {approval} {number}: "
    if recorded is not None:
        text = f"iteration {number} is recorded already: {recorded.outcome}, {recorded.reason}"
        return GoalseekError(prefix + text, f"see: goalseek show {number}")
    if question is not None:
        message = f"iteration {number} does not wait for a word; iteration {question.iteration} does"
        return GoalseekError(prefix + message, commands_for(question))
    if manifest.manifest.approve.before == "never":
        hint = 'the manifest asks for no word; [approve] before = "kept" does'
    else:
        hint = "goalseek status says where it stands"
    return GoalseekError(prefix + "nothing waits for a word", hint)
