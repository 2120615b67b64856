"""``goalseek stop``: the run at work ends after its iteration, or at once where it waits for its provider."""

from __future__ import annotations

import contextlib

from goalseek.cli.options import Options, Parser
from goalseek.humanize import format_duration
from goalseek.ledger.checkpoints import Flight
from goalseek.ledger.results_file import History, load_standing
from goalseek.manifest.loading import with_manifest_option
from goalseek.project.approval import commands_for, open_question
from goalseek.project.opening import open_repository
from goalseek.project.paths import manifest_of_running_climb
from goalseek.project.picture import read_picture, seconds_since
from goalseek.project.progress import median_iteration_seconds
from goalseek.project.stop import STOPPABLE_SECONDS, read_pending_run, request_stop
from goalseek.records import IterationRecord


def arguments(parser: Parser) -> None:
    pass


def run(options: Options) -> int:
    manifest = manifest_of_running_climb(options.load_manifest_to_look())
    picture = read_picture(manifest.state)  # as it is when asked: one that waits has ended a moment later
    with contextlib.closing(open_repository(manifest)) as repository:
        holder, run_id = request_stop(repository.own), read_pending_run(repository.own)
    standing, newest = load_standing(manifest), History(manifest.results).newest()
    if holder is None:
        where = with_manifest_option("goalseek status says where it stands", options.manifest)
        fields = {"asked": False, "holder": None, "usual_seconds": None}
        options.print_answer(fields, f"nothing is running, so there is nothing to stop; {where}")
        return 0
    usual = median_iteration_seconds(record for record in newest if isinstance(record, IterationRecord))
    taking = f"an iteration usually takes {format_duration(usual)}" if usual is not None else "none is over yet"
    is_waiting = "; waits until " in picture.waits  # for its provider
    has_several = bool(Flight(manifest.runs, None, run_id or standing.run_id).begun())
    ends = "finishes what it measures, drops the proposals under way" if has_several else "finishes its iteration"
    answer = "waits, and stops now" if is_waiting else f"{ends}, then stops; {taking}"
    lines = [f"asked {holder}: it {answer}"]
    if picture.silent_since:
        silence, after = seconds_since(picture.silent_since), format_duration(STOPPABLE_SECONDS)
        lines.append(
            f"its provider has printed nothing for {format_duration(silence)}: after {after}, its call is ended"
        )
    if question := open_question(manifest.manifest, manifest.runs, standing, run_id or standing.run_id):
        commands = with_manifest_option(commands_for(question), options.manifest)
        lines.append(f"it waits for your approval first: {commands}")
    options.print_answer({"asked": True, "holder": str(holder), "usual_seconds": usual}, *lines)
    return 0
