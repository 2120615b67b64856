"""``goalseek approve``: the answer for the iteration that waits for approval; ``decline`` gives the other one."""

from pathlib import Path

from goalseek import locks
from goalseek.cli.options import Options, Parser
from goalseek.errors import GoalseekError
from goalseek.ledger.results_file import History, load_standing
from goalseek.project import approval, config, paths, stop
from goalseek.values import Outcome
from goalseek.views.terminal_text import one_line


def arguments(parser: Parser) -> None:
    parser.add_argument("iteration", type=int, metavar="N", help="the number of the iteration that waits")
    parser.epilog = (
        "If the verdict rejects the change, the climb goes on with either answer. A declined change is never tried "
        "again in a stack."
    )


def run(options: Options) -> None:
    word: approval.Approval = options.command_name
    manifest, number = paths.manifest_of_running_climb(options.load_manifest()), options.iteration
    standing = load_standing(manifest)
    with config.open_repository(manifest) as repository:
        own = repository.own
    run_id, holder, last = stop.read_pending_run(own), locks.lock_holder(own), Path(locks.last_manifest(own))
    questions = approval.open_questions(manifest, standing, run_id or standing.run_id)
    question = next((one for one in questions if one.iteration == number), None)
    if question is None:
        recorded = History(manifest.results).iteration(number) if 0 <= number <= standing.last_iteration else None
        why, hint = "nothing waits for approval", "see: goalseek status"
        if recorded is not None:
            why = f"iteration {number} is recorded already: {recorded.outcome}, {recorded.reason}"
            hint = f"see: goalseek show {number}"
        elif questions:
            why = f"iteration {number} does not wait for approval; iteration {questions[0].iteration} does"
            hint = approval.commands_for(questions[0])
        elif manifest.manifest.approve.before == "never":
            hint = 'to be asked, set before = "kept" in [approve]'
        if not questions and last.name and last != manifest.path.resolve():
            hint += f"; the climb was last at work in {last.parent}"
        raise GoalseekError(f"goalseek {word} {number}: {why}", hint)
    approval.save_approval(manifest.logs, question, word, one_line(getattr(options, "why", "")))
    outcome = Outcome.KEPT if question.verdict and word == "approve" else Outcome.REVERTED
    fields: dict[str, object] = {"iteration": number, "word": word, "commit": question.commit}
    fields |= {"holder": str(holder) if holder else None, "outcome": outcome, "why": question.verdict.why}
    goes_on = f"{holder} goes on" if holder else options.with_manifest("goalseek iterate goes on")
    effect = f"will be {outcome}" if question.verdict else "lost, and is reverted with either answer"
    options.print_answer(fields, f"iteration {number} {effect}: {one_line(question.verdict.why)}; {goes_on}")
