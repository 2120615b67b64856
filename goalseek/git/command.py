"""Hardened git commands: a cleaned environment, no hook, no filter, and none of the user's settings but these.

* safe.directory: if git calls a repository's owner dubious, ``locate`` asks the user's own git.
* core.sharedRepository: ``Repository.objects`` passes it to every git that writes there.
* core.worktree: ``locate`` takes git's answer, but not another user's tree; every later git is told both folders.
* storage: core.repositoryFormatVersion, extensions.*, objects/info/alternates, info/attributes.

``git status`` in the checkout and ``promote``'s commits run under the user's whole configuration (``git_as_user``).
"""

import os
from collections.abc import Mapping
from pathlib import Path

from goalseek import process
from goalseek.errors import UNFIT, GitFailed, GoalseekError

AUTHOR = ("goalseek", "goalseek@localhost")

OVERRIDDEN_SETTINGS = {
    "core.hooksPath": "/dev/null",  # programs: hooks
    "core.fsmonitor": "false",  # a program
    "core.attributesFile": "/dev/null",  # filters and drivers by name
    "core.excludesFile": "/dev/null",
    "core.sparseCheckout": "false",  # trees are whole
    "commit.gpgSign": "false",  # a program, which may ask for a password
    "core.bigFileThreshold": "1000g",  # no object is streamed into a pack: each is loose, and can be linked
    "gc.auto": "0",  # nothing is pruned, nothing is packed but by us
    "maintenance.auto": "false",
    "submodule.recurse": "false",
    "core.fsync": "committed",  # a cut power loses nothing that a ref names
    "core.quotePath": "false",
    "core.warnAmbiguousRefs": "false",  # an open process would warn of refs/tags/HEAD to a pipe that nobody reads
    "core.untrackedCache": "false",
    "core.splitIndex": "false",
    "protocol.allow": "never",  # nothing is fetched; GIT_ALLOW_PROTOCOL covers protocols allowed by name
}
"""What the repository's own configuration may say, and goalseek's git does not do. Filters, text conversions, pagers,
editors, ssh commands and external diffs need no row: no command that would run one is ever called."""
HARDENED = [word for name, value in OVERRIDDEN_SETTINGS.items() for word in ("-c", f"{name}={value}")]
WRITTEN_OUT = ("-c", "core.fsyncMethod=writeout-only")
"""Content is on its way to the disk when git names it, so that a name never leads to a torn file. A later sync on the
same disk makes both durable: ext4 and XFS sync with a file what was there before; others go back to a whole moment."""
_USER_PREFIXES = ("GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_CONFIG", "GIT_SSH")


def environment(**variables: str) -> dict[str, str]:
    """Of ours, only the places of programs, home and temporary files."""
    return {
        **process.inherited_variables(("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH")),
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        **variables,
    }


def git_as_user(
    *arguments: str, folder: Path | None = None, stdin: bytes = b"", variables: Mapping[str, str] = {}
) -> process.CompletedProgram:
    """Under the user's environment without the variables of a calling git, except those that configure git."""
    inherited = process.environment_without("GIT_", but=_USER_PREFIXES)
    return process.run(["git", *arguments], {**inherited, **variables}, stdin, folder)


def git(
    *arguments: str,
    git_dir: Path | None = None,
    folder: Path | None = None,
    stdin: bytes = b"",
    variables: Mapping[str, str] = {},
) -> bytes:
    """The standard output of a hardened command. Raises GitFailed; FileNotFoundError without the ``folder``."""
    git_variables = {**variables, **({"GIT_DIR": str(git_dir)} if git_dir else {})}
    try:
        answer = process.run(["git", *HARDENED, *arguments], environment(**git_variables), stdin, folder)
    except FileNotFoundError as error:
        if error.filename != "git":
            raise
        raise GoalseekError("git is not installed, or not on PATH", "install git 2.38 or newer", UNFIT) from None
    if answer.returncode:
        raise GitFailed(arguments, answer.returncode, answer.stderr, answer.stdout)
    return answer.stdout
