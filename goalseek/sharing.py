"""With whom a repository is shared, ``core.sharedRepository``: goalseek writes there with the rights that git gives."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path

from goalseek import process
from goalseek.errors import UNFIT, GoalseekError
from goalseek.git import users_environment
from goalseek.location import Location

_WORDS = {
    **dict.fromkeys(("umask", "false", "no", "off", "0"), 0),
    **dict.fromkeys(("group", "true", "yes", "on", "1", ""), 0o660),
    **dict.fromkeys(("all", "world", "everybody", "2"), 0o664),
}
_NOT_SET = 1


@dataclass(frozen=True)
class Sharing:
    """The setting as it is written; None where there is none."""

    value: str | None = None

    def variables(self) -> dict[str, str]:
        """What makes a git command write so, whatever configuration it reads."""
        if self.value is None:
            return {}
        value = self.value or "true"
        return {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.sharedRepository", "GIT_CONFIG_VALUE_0": value}

    def make_folder(self, folder: Path) -> None:
        """Makes a folder with the rights that git would give it; one that is there is left as it is."""
        try:
            folder.mkdir()
        except FileExistsError:
            return
        written = stat.S_IMODE(folder.stat().st_mode)
        if (wanted := self._mode_of_folder(written)) != written:
            folder.chmod(wanted)

    def _mode_of_folder(self, mode: int) -> int:
        """Git's own rule: words add to what the umask leaves, a number is instead of it."""
        if self.value is None or _WORDS.get(self.value.lower()) == 0:
            return mode
        added = _WORDS.get(self.value.lower())
        mode = mode | added if added is not None else mode & ~0o777 | int(self.value, 8) & 0o666
        mode |= (mode & 0o444) >> 2
        return mode | stat.S_ISGID if mode & 0o060 else mode


UNSHARED = Sharing()


def sharing_of(location: Location) -> Sharing:
    """The setting, in whichever file the user's git finds it. Raises GoalseekError where git cannot read them."""
    variables = users_environment(GIT_DIR=str(location.git_dir))
    answer = process.ask(["git", "config", "--get", "core.sharedRepository"], variables)
    if answer.exit_code == _NOT_SET:
        return Sharing()
    if answer.exit_code:
        message = f"git config fails in {location.top}: {answer.stderr.decode('utf-8', 'replace').strip()}"
        raise GoalseekError(message, "see that it works here, and run the same command", UNFIT, "repository")
    return Sharing(answer.stdout.decode("utf-8", "replace").strip())
