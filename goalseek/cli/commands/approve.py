"""``goalseek approve``: the answer for the iteration that waits for approval; ``decline`` gives the other one."""

from __future__ import annotations

import contextlib
from pathlib import Path

from goalseek.cli.options import Options, Parser
from goalseek.errors import GoalseekError
from goalseek.ledger.results_file import History, load_standing
from goalseek.locks import last_manifest, lock_holder
from goalseek.manifest.loading import with_manifest_option
from goalseek.project.approval import Approval, commands_for, open_question, save_approval
from goalseek.project.opening import open_repository
from goalseek.project.paths import manifest_of_running_climb
from goalseek.project.stop import read_pending_run
from goalseek.values import Outcome
from goalseek.views.terminal_text import one_line


def arguments(parser: Parser) -> None:
    parser.add_argument("iteration", type=int, metavar="N", help="the number of the iteration that waits")
    parser.epilog = (
        "Where the verdict rejects the change, the climb goes on either way. One that you decline is never tried again "
        "together with others."
    )


def run(options: Options) -> int:
    approval: Approval = options.command_name
    manifest = manifest_of_running_climb(options.load_manifest())
    standing = load_standing(manifest)
    with contextlib.closing(open_repository(manifest)) as repository:
        run_id, holder = read_pending_run(repository.own) or standing.run_id, lock_holder(repository.own)
        last = Path(last_manifest(repository.own))
    question = open_question(manifest.manifest, manifest.runs, standing, run_id, options.iteration)
    if question is None or question.iteration != options.iteration:
        number = options.iteration
        recorded = History(manifest.results).iteration(number) if 0 <= number <= standing.last_iteration else None
        if recorded is not None:
            why = f"iteration {number} is recorded already: {recorded.outcome}, {recorded.reason}"
            hint = f"see: goalseek show {number}"
        elif question is not None:
            why = f"iteration {number} does not wait for approval; iteration {question.iteration} does"
            hint = commands_for(question)
        else:
            why, hint = "nothing waits for approval", "goalseek status says where it stands"
            if manifest.manifest.approve.before == "never":
                hint = 'the manifest asks for no approval; [approve] before = "kept" does'
        if question is None and last.name and last != manifest.path.resolve():
            hint += f"; the climb was last at work in {last.parent}"
        raise GoalseekError(f"goalseek {approval} {number}: {why}", hint)
    save_approval(manifest.logs, question, approval, one_line(getattr(options, "why", "")))
    outcome = Outcome.KEPT if question.verdict and approval == "approve" else Outcome.REVERTED
    fields: dict[str, object] = {"iteration": question.iteration, "word": approval, "commit": question.commit}
    fields |= {"holder": str(holder) if holder else None, "outcome": outcome, "why": question.verdict.why}
    goes_on = f"{holder} goes on" if holder else with_manifest_option("goalseek iterate goes on", options.manifest)
    effect = f"will be {outcome}" if question.verdict else "lost, and is reverted whatever the answer"
    text = f"iteration {question.iteration} {effect}: {one_line(question.verdict.why)}; {goes_on}"
    options.print_answer(fields, text)
    return 0
