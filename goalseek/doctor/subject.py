"""What is checked: an open project for one command, with the files that its number depends on."""

from __future__ import annotations

import typing
from collections.abc import Mapping

from goalseek.evaluation.measurements import Evaluation
from goalseek.git.objects import Entry
from goalseek.project.project import Project

if typing.TYPE_CHECKING:
    from goalseek.doctor.cheats import AppliedCheat


class Subject(Evaluation, frozen=True):
    """What a command is about to measure or change.

    ``entries`` are the files of the tree that the ruler is, or will be, taken from; ``code`` are those that candidates
    start from, whose they are says ``source``. ``jobs`` is what ``iterate --jobs`` asks for. ``is_live`` allows a call
    to the provider.
    """

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


def subject_of(project: Project, command: str, jobs: int | None = None) -> Subject:
    """The tree that is climbed from: the incumbent's, or HEAD's before the first baseline."""
    incumbent = project.standing.incumbent
    config = project.config() if incumbent else project.config_for_baseline()
    entries = project.repository.files_of(incumbent.commit if incumbent else project.repository.head())
    return Subject(project, config, command, entries, entries, "the incumbent" if incumbent else "HEAD", jobs)


def subject_for_baseline(project: Project, commit: str | None) -> Subject:
    """HEAD's ruler and the code of a commit; None is the incumbent's, or HEAD's before the first baseline."""
    incumbent, source = project.standing.incumbent, commit[:12] if commit else "HEAD"
    if commit is None and incumbent:
        commit, source = incumbent.commit, "the incumbent"
    entries = project.repository.files_of(project.repository.head())
    code = project.repository.files_of(commit) if commit else entries
    return Subject(project, project.config_for_baseline(), "baseline", entries, code, source)
