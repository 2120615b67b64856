"""What is checked: an open project for one command, with the files that its number depends on."""

from __future__ import annotations

import typing
from collections.abc import Mapping

from msgspec import Struct

from goalseek.git.objects import Entry
from goalseek.project.config import Config
from goalseek.project.project import Project

if typing.TYPE_CHECKING:
    from goalseek.doctor.cheats import AppliedCheat


class Subject(Struct, frozen=True):
    """What a command is about to measure or change.

    ``entries`` are the files of the tree that the ruler is, or will be, taken from; ``code`` are those that candidates
    start from, whose they are says ``source``. ``jobs`` is what ``iterate --jobs`` asks for. ``is_live`` allows a call
    to the provider.
    """

    project: Project
    config: Config
    command: str
    entries: Mapping[str, Entry]
    code: Mapping[str, Entry]
    source: str
    jobs: int | None = None
    cheats: tuple[AppliedCheat, ...] = ()
    is_live: bool = False

    @property
    def takes_ruler(self) -> bool:
        """Whether a ruler follows from what is checked; else it is pinned."""
        return self.command in ("baseline", "compare") or self.project.standing.baseline is None


def subject_of(project: Project, command: str, jobs: int | None = None, source: str | None = None) -> Subject:
    """The tree that is climbed from: the incumbent's, or HEAD's before the first baseline.

    For a ``baseline`` it is HEAD's ruler and the code of the commit ``source``, else of that tree.
    """
    incumbent = project.standing.incumbent
    commit = source or (incumbent.commit if incumbent else project.repository.head())
    name = source[:12] if source else "the incumbent" if incumbent else "HEAD"
    ruler_commit = project.repository.head() if command == "baseline" else commit
    is_next = command == "baseline" or incumbent is None
    config = project.config_for_baseline() if is_next else project.config()
    entries = project.repository.files_of(ruler_commit)
    code = entries if commit == ruler_commit else project.repository.files_of(commit)
    return Subject(project, config, command, entries, code, name, jobs)
