"""``goalseek stop``: the run at work ends after its iteration, or at once where it waits for its provider."""

from goalseek.cli.options import Options, Parser
from goalseek.humanize import format_duration
from goalseek.ledger.checkpoints import Flight
from goalseek.ledger.results_file import History, load_standing
from goalseek.project import approval, config, paths, picture, progress, stop


def arguments(parser: Parser) -> None:
    pass


def run(options: Options) -> None:
    manifest = paths.manifest_of_running_climb(options.load_manifest_to_look())
    seen = picture.read_picture(manifest.state)  # as it is when asked: one that waits has ended a moment later
    with config.open_repository(manifest) as repository:
        holder, run_id = stop.request_stop(repository.own), stop.read_pending_run(repository.own)
    if holder is None:
        where = options.with_manifest("see: goalseek status")
        fields = {"asked": False, "holder": None, "usual_seconds": None}
        options.print_answer(fields, f"nothing is running, so there is nothing to stop; {where}")
        return
    standing = load_standing(manifest)
    run_id = run_id or standing.run_id
    usual = progress.median_iteration_seconds(History(manifest.results).newest_iterations())
    taking = f"an iteration usually takes {format_duration(usual)}" if usual is not None else "none is over yet"
    ends = "finishes its iteration"
    if Flight(manifest.runs, None, run_id).begun():
        ends = "finishes its measurements, drops the proposals under way"
    is_waiting = "; next try at " in seen.waits  # for its provider
    lines = [f"asked {holder}: it {'waits, and stops now' if is_waiting else f'{ends}, then stops; {taking}'}"]
    if seen.silent_since:
        silence = format_duration(picture.seconds_since(seen.silent_since))
        after = format_duration(stop.STOPPABLE_SECONDS)
        lines.append(f"its provider has printed nothing for {silence}; goalseek ends its call after {after}")
    if questions := approval.open_questions(manifest, standing, run_id):
        lines.append(f"it waits for your approval first: {options.with_manifest(approval.commands_for(questions[0]))}")
    options.print_answer({"asked": True, "holder": str(holder), "usual_seconds": usual}, *lines)
