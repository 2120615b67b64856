"""A command line as it was parsed, with the answers to it; and the options that several commands take."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import typing
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

from goalseek.cli.registry import OPTIONS, option_usage
from goalseek.errors import GoalseekError
from goalseek.manifest.loading import ManifestFile, find, load, load_last_good, with_manifest_option
from goalseek.values import to_plain
from goalseek.views.terminal_text import Paint, can_move_cursor, one_line, painter, replace_unprintable

if typing.TYPE_CHECKING:
    from _typeshed import SupportsWrite

    from goalseek.project.activity import Observer
    from goalseek.views.lines import LineWatch


class Options(argparse.Namespace):
    """The values of the options. Answers go to stdout, as text or JSON; messages to stderr."""

    @property
    def wants_json(self) -> bool:
        return bool(self.json or self.query)

    def print_answer(self, value: Any, *lines: str) -> None:
        """The lines; or the value as JSON, flushed, since its reader may go on meanwhile."""
        if self.wants_json:
            print(json.dumps(self.apply_query(to_plain(value))), flush=True)
        else:
            print("\n".join(lines))

    def print_json_lines(self, values: Iterable[Any]) -> None:
        """Applies ``--query`` to each value, and leaves out null."""
        for value in values:
            part = self.apply_query(to_plain(value))
            if part is not None or not self.query:
                print(json.dumps(part))

    def apply_query(self, plain: Any) -> Any:
        """Raises GoalseekError for a query that does not parse."""
        if not self.query:
            return plain
        import jmespath

        try:
            return jmespath.search(self.query, plain)
        except jmespath.exceptions.JMESPathError as error:
            from goalseek.manifest.rules import query_fault

            raise GoalseekError(f"--query {query_fault(self.query, error)}", "see https://jmespath.org") from None

    def print_message(self, text: str) -> None:
        if not self.quiet:
            print(replace_unprintable(text), file=sys.stderr)

    def with_manifest(self, text: str) -> str:
        """Goalseek commands quoted in the text get the -m that this command was given."""
        return with_manifest_option(text, self.manifest)

    def painter(self) -> Paint:
        return painter(sys.stdout, self.color)

    def line_view(self) -> LineWatch:
        """Also with ``--json``: commands that do not climb report on stderr."""
        from goalseek.views.lines import LineWatch

        return LineWatch(self.color, self.quiet, self.verbose)

    def choose_view(self) -> Observer:
        if not self.wants_json:
            return self.line_view()
        from goalseek.views.lines import EventWatch

        self.apply_query({})
        return EventWatch(sys.stdout, self.apply_query)

    def open_live_view(self) -> contextlib.AbstractContextManager[Observer]:
        """A live panel if stdout is a terminal that shows one, without ``--json`` and ``-q``; else ``choose_view``."""
        if self.wants_json or self.quiet or not can_move_cursor(sys.stdout):
            return contextlib.nullcontext(self.choose_view())
        from goalseek.views.panel import LiveWatch

        return contextlib.closing(LiveWatch(self.color, self.verbose))

    def start_folder(self) -> Path:
        folder = Path(self.folder)
        try:
            Path.cwd()
        except FileNotFoundError:
            raise GoalseekError("the current folder is gone", "cd to a folder that exists") from None
        if not folder.is_dir():
            raise GoalseekError(f"-C {self.folder}: there is no such folder", "name a folder that exists")
        return folder.resolve()

    def load_manifest(self) -> ManifestFile:
        return load(find(self.start_folder(), self.manifest))

    def load_manifest_to_look(self) -> ManifestFile:
        """For commands that only look: an invalid manifest gives the last good one, and a note on stderr."""
        path = find(self.start_folder(), self.manifest)
        try:
            return load(path)
        except GoalseekError as error:
            if (last_good := load_last_good(path)) is None:
                raise
            why = one_line(error.message)
            print(f"note: the manifest is invalid now, so the last valid one applies: {why}", file=sys.stderr)
            return last_good

    def refuse_two_outputs(self, name: str, path: str | None, what: str) -> None:
        """Raises GoalseekError if JSON and ``what`` the option of this name writes would both go to stdout."""
        if path == "-" and self.wants_json:
            raise GoalseekError(f"{name} - and --json would both write to standard output", f"name a file for {what}")


class Parser(argparse.ArgumentParser):
    """Raises GoalseekError instead of ending the process. A command's parser has an ``example``."""

    example = ""

    def error(self, message: str) -> NoReturn:
        raise GoalseekError(f"{self.prog}: {message}", self.format_usage().strip())

    def format_help(self) -> str:
        text = super().format_help()
        if not self.example:
            return text
        common = f"common options: {', '.join(map(option_usage, OPTIONS))} (see: goalseek --help --all)"
        return f"{text}\nexample:\n  {self.example}\n\n{common}\n"

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        print(self.format_help(), end="", file=file)
        sys.stdout.flush()  # argparse ends the process next, and would hide an error of writing


def add_options(parser: Parser, is_top: bool) -> None:
    """A command's parser does not describe them, and sets no defaults: a value given before the command stays."""
    undescribed = {} if is_top else {"default": argparse.SUPPRESS, "help": argparse.SUPPRESS}
    for option, settings in OPTIONS.items():
        parser.add_argument(option, **{**settings, **undescribed})


def add_proposer_options(parser: Parser) -> None:
    parser.add_argument(
        "--provider", metavar="P", help="the agent or program that proposes the changes (default: the manifest's)"
    )
    parser.add_argument("--model", metavar="M", help="the model of the provider (default: the manifest's)")


def add_committed_option(parser: Parser) -> None:
    text = "ignore uncommitted changes, except in goalseek.toml"
    parser.add_argument("--committed", action="store_true", help=text)


def add_why_option(parser: Parser) -> None:
    parser.add_argument("--why", metavar="TEXT", default="", help="the reason, for the records and for the agent")


def refuse(*faults: tuple[bool, str, str]) -> None:
    """Raises GoalseekError for the first fault (is there, message, hint) that is there."""
    for is_there, message, hint in faults:
        if is_there:
            raise GoalseekError(message, hint)
