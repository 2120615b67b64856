"""``goalseek stop``: the run at work finishes its iteration, then ends."""

from __future__ import annotations

import argparse

from goalseek.cli.options import load_manifest
from goalseek.cli.output import print_json, wants_json
from goalseek.humanize import format_duration
from goalseek.ledger.records import IterationRecord
from goalseek.ledger.results_file import History, load_standing
from goalseek.locks import Holder
from goalseek.manifest.loading import ManifestFile, with_manifest_option
from goalseek.project.approval import commands_for, open_question
from goalseek.project.limits import median_iteration_seconds
from goalseek.project.opening import open_repository
from goalseek.project.paths import manifest_of_running_climb
from goalseek.project.stop import read_pending_run, request_stop


def arguments(parser: argparse.ArgumentParser) -> None:
    """``stop`` takes nothing of its own."""


def run(options: argparse.Namespace) -> int:
    """Asks the run to stop, and says how long that may take; or that nothing is running."""
    manifest = manifest_of_running_climb(load_manifest(options))
    holder, run_id = _ask_to_stop(manifest)
    standing = load_standing(manifest)
    question = open_question(manifest.manifest, manifest.runs, standing, run_id or standing.run_id) if holder else None
    usual = (
        median_iteration_seconds(
            record for record in History(manifest.results).newest() if isinstance(record, IterationRecord)
        )
        if holder
        else None
    )
    if wants_json(options):
        print_json(
            options, {"asked": holder is not None, "holder": str(holder) if holder else None, "usual_seconds": usual}
        )
    elif holder is None:
        where = with_manifest_option("goalseek status says where it stands", options.manifest)
        print(f"nothing is running, so there is nothing to stop; {where}")
    else:
        taking = f"an iteration usually takes {format_duration(usual)}" if usual is not None else "none has ended yet"
        print(f"asked {holder}: it finishes its iteration, then stops; {taking}")
        if question:
            print(
                f"it waits for a person's word first: {with_manifest_option(commands_for(question), options.manifest)}"
            )
    return 0


def _ask_to_stop(manifest: ManifestFile) -> tuple[Holder | None, str]:
    """The holder of the lock that was asked to stop, or None; and the id of the run about to begin, or ""."""
    repository = open_repository(manifest)
    try:
        return request_stop(repository.own), read_pending_run(repository.own)
    finally:
        repository.close()
