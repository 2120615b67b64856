"""The options that every command takes, before or after its name."""

from __future__ import annotations

import argparse
import sys
import typing
from pathlib import Path
from typing import NoReturn

from goalseek.cli.registry import OPTIONS, usage_of
from goalseek.errors import GoalseekError
from goalseek.manifest.loading import ManifestFile, find, load, load_last_good

if typing.TYPE_CHECKING:
    from _typeshed import SupportsWrite


class Parser(argparse.ArgumentParser):
    """Raises GoalseekError instead of ending the process. A command's parser has an ``example``."""

    example = ""

    def error(self, message: str) -> NoReturn:
        raise GoalseekError(f"{self.prog}: {message}", self.format_usage().strip())

    def format_help(self) -> str:
        text = super().format_help()
        if not self.example:
            return text
        common = f"common options: {', '.join(map(usage_of, OPTIONS))} (see: goalseek --help)"
        return f"{text}\nexample:\n  {self.example}\n\n{common}\n"

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        print(self.format_help(), end="", file=file)
        sys.stdout.flush()  # argparse ends the process next, and would hide an error of writing


def add_options(parser: argparse.ArgumentParser, is_top: bool) -> None:
    """A command's parser does not describe them, and sets no defaults: a value given before the command stays."""
    undescribed = {} if is_top else {"default": argparse.SUPPRESS, "help": argparse.SUPPRESS}
    for option, settings in OPTIONS.items():
        parser.add_argument(option, **{**settings, **undescribed})


def add_proposer_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--provider", metavar="P", help="who proposes the changes (default: the manifest's)")
    parser.add_argument("--model", metavar="M", help="the model of the provider (default: the manifest's)")


def add_committed_option(parser: argparse.ArgumentParser) -> None:
    text = "a baseline leaves uncommitted changes out; the manifest alone is read as it lies there"
    parser.add_argument("--committed", action="store_true", help=text)


def add_why_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--why", metavar="TEXT", default="", help="the reason, for the records and for the agent")


def refuse(*faults: tuple[bool, str, str]) -> None:
    """Raises GoalseekError for the first fault (is there, message, hint) that is there."""
    for is_there, message, hint in faults:
        if is_there:
            raise GoalseekError(message, hint)


def refuse_two_outputs(options: argparse.Namespace, name: str, path: str | None, what: str) -> None:
    """Raises GoalseekError if JSON and ``what`` the option of this name writes would both go to standard output."""
    if path == "-" and (options.json or options.query):
        raise GoalseekError(f"{name} - and --json would both write to standard output", f"name a file for {what}")


def start_folder(options: argparse.Namespace) -> Path:
    folder = Path(options.folder)
    try:
        Path.cwd()
    except FileNotFoundError:
        raise GoalseekError("the current folder is gone", "cd to a folder that exists") from None
    if not folder.is_dir():
        raise GoalseekError(f"-C {options.folder}: there is no such folder", "name a folder that exists")
    return folder.resolve()


def load_manifest(options: argparse.Namespace) -> ManifestFile:
    return load(find(start_folder(options), options.manifest))


def load_manifest_to_look(options: argparse.Namespace) -> ManifestFile:
    """For commands that only look: an invalid manifest gives the last good one, and a note on stderr."""
    path = find(start_folder(options), options.manifest)
    try:
        return load(path)
    except GoalseekError as error:
        if (last_good := load_last_good(path)) is None:
            raise
        from goalseek.views.terminal_text import one_line

        why = one_line(error.message)
        print(f"note: the manifest cannot be used now, so the last good one holds: {why}", file=sys.stderr)
        return last_good
