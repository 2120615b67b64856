"""Benches side by side: the same tree measured on several of them at once, as ``parallel.benches`` does."""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from goalseek.errors import Ended
from goalseek.locks import Baton
from goalseek.project.project import Project

Result = TypeVar("Result")


class Crew:
    """Works on several tasks at once, a thread for each, one of which at a time runs goalseek's own code.

    Whoever asks for that holds the ``baton``.
    """

    def __init__(self) -> None:
        self.baton = Baton()
        self._error: BaseException | None = None

    def check(self) -> None:
        """What a task is asked while it waits: raises Ended where another one failed, or a signal ends all."""
        if self._error:
            raise Ended

    def run(self, tasks: Sequence[Callable[[], Result]]) -> tuple[Result, ...]:
        """The results, once all tasks have ended; raises the first error of one. A single task needs no thread."""
        if len(tasks) == 1:
            return (tasks[0](),)
        results: dict[int, Result] = {}

        def work(index: int, task: Callable[[], Result]) -> None:
            with self.baton:
                try:
                    results[index] = task()
                except BaseException as error:
                    self._error = self._error or error

        threads = [
            threading.Thread(target=contextvars.copy_context().run, args=(work, index, task))
            for index, task in enumerate(tasks)
        ]
        for thread in threads:
            thread.start()
        with self.baton.let_go():
            try:
                for thread in threads:
                    thread.join()
            except BaseException as error:
                self._error = error
                for thread in threads:
                    thread.join()
        if self._error:
            raise self._error
        return tuple(results[index] for index in range(len(tasks)))


@contextlib.contextmanager
def side_by_side(project: Project, crew: Crew, count: int) -> Iterator[list[Project]]:
    """The project once for each of so many benches, which have trees, programs and slot variables of their own.

    The first bench is that of the project itself, which must not measure during this block.
    """
    project.lane.trees.close()
    project.baton = crew.baton
    with contextlib.ExitStack() as stack:
        stack.callback(setattr, project, "baton", None)
        projects = []
        for slot in range(count):
            lane = project.add_lane(f"bench-{slot}" if slot else "", slot)
            stack.callback(lane.close)
            beside = project.beside(crew.check)
            beside.enter(lane)
            projects.append(beside)
        stack.enter_context(crew.baton)
        yield projects
