"""The provider ``function``: a function of the calling Python program edits the workspace."""

from collections.abc import Callable
from pathlib import Path

from goalseek.errors import GoalseekError
from goalseek.humanize import clean_title
from goalseek.manifest.tables import ProviderTable
from goalseek.phase_values import Plan
from goalseek.providers.provider import Call, Provider, Reply
from goalseek.values import FUNCTION, StopReason


class FunctionTable(ProviderTable, frozen=True, kw_only=True):
    name: str = FUNCTION
    propose: Callable[[Path], str]


class FunctionProvider(Provider):
    name = FUNCTION
    repairs = False

    def __init__(self, propose: Callable[[Path], str]) -> None:
        self._propose = propose

    def plan(self, call: Call) -> Reply:
        return Reply("", "The function plans while it edits.")

    def apply(self, call: Call, plan: Plan) -> Reply:
        """Raises GoalseekError if the function raises: a mistake in it is no result of an iteration."""
        try:
            title = self._propose(call.folder)
            if not isinstance(title, str):
                raise TypeError(f"it returned {title!r}, not a title")
        except Exception as error:
            message, hint = f"propose raised {type(error).__name__}: {error}", "correct it, then iterate again"
            raise GoalseekError(message, hint, StopReason.PROVIDER) from error
        return Reply(clean_title(title))
