"""The options that every command takes, before or after its name."""

from __future__ import annotations

import argparse
import sys
import typing
from pathlib import Path
from typing import Any, NoReturn

from goalseek.errors import GoalseekError
from goalseek.manifest.loading import ManifestFile, find, load

if typing.TYPE_CHECKING:
    from _typeshed import SupportsWrite


class Parser(argparse.ArgumentParser):
    """A parser that raises GoalseekError in place of ending the process."""

    def error(self, message: str) -> NoReturn:
        """Raises GoalseekError with the usage line."""
        raise GoalseekError(f"{self.prog}: {message}", self.format_usage().strip())

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        """Prints and flushes the help: argparse ends the process next, and would hide an error of writing."""
        print(self.format_help(), end="", file=file)
        sys.stdout.flush()


def add_options(parser: argparse.ArgumentParser, is_top: bool) -> None:
    """Adds the global options. A command's parser sets no defaults: a value given before the command stays."""

    def default(value: Any) -> Any:
        return value if is_top else argparse.SUPPRESS

    group = parser.add_argument_group("everywhere") if not is_top else parser
    group.add_argument("-C", dest="folder", metavar="DIR", default=default("."), help="work in this folder")
    group.add_argument("-m", dest="manifest", metavar="MANIFEST", default=default(None), help="a name or a path")
    group.add_argument("-q", dest="quiet", action="store_true", default=default(False), help="less chatter")
    group.add_argument("-v", dest="verbose", action="store_true", default=default(False), help="more chatter")
    group.add_argument("--json", action="store_true", default=default(False), help="answers as JSON")
    group.add_argument("--query", metavar="JMESPATH", default=default(None), help="of the JSON answer, this part")
    group.add_argument("--color", choices=("auto", "always", "never"), default=default("auto"))


def refuse(*faults: tuple[bool, str, str]) -> None:
    """Raises GoalseekError for the first fault that there is; each is whether there is, the message and the hint."""
    for is_there, message, hint in faults:
        if is_there:
            raise GoalseekError(message, hint)


def start_folder(options: argparse.Namespace) -> Path:
    """The folder that ``-C`` names. Raises GoalseekError where there is none."""
    folder = Path(options.folder)
    try:
        Path.cwd()
    except FileNotFoundError:
        raise GoalseekError("the current folder is gone", "cd to one that exists") from None
    if not folder.is_dir():
        raise GoalseekError(f"-C {options.folder}: there is no such folder", "name an existing one")
    return folder.resolve()


def load_manifest(options: argparse.Namespace) -> ManifestFile:
    """The checked manifest that ``-C`` and ``-m`` name."""
    return load(find(start_folder(options), options.manifest))
