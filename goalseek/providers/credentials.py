"""Credentials of coding agents: an API key, or the login of a subscription; their presence, and who pays."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from goalseek.disk import read_object

Billing = Literal["api", "subscription"]


class Credential(Struct, frozen=True):
    """A variable, or a file by its path as people write it (``~/.codex/auth.json``)."""

    name: str
    billing: Billing
    moved_by: str = ""  # the environment variable that names another folder for the file
    is_key: Callable[[Any], bool] | None = None  # whether the file's JSON holds an API key; None: as ``billing`` says

    @property
    def is_file(self) -> bool:
        return "/" in self.name

    def path(self) -> Path:
        folder = os.environ.get(self.moved_by) if self.moved_by else None
        return Path(folder, Path(self.name).name) if folder else Path(self.name).expanduser()

    def found(self) -> Billing | None:
        """Who pays by this credential; None if it is absent."""
        if not self.is_file:
            return self.billing if os.environ.get(self.name) else None
        if not self.path().is_file():
            return None
        return "api" if self.is_key and self.is_key(read_object(self.path())) else self.billing


def api_keys(*names: str) -> tuple[Credential, ...]:
    return tuple(Credential(name, "api") for name in names)


class LoginFile(Struct, frozen=True):
    real: Path
    below_home: str  # its path relative to HOME; "" outside of it


class Login(Struct, frozen=True):
    """The credentials of a call; ``billing`` is None without any."""

    billing: Billing | None = None
    variables: tuple[str, ...] = ()
    files: tuple[LoginFile, ...] = ()


def find_login(sources: Iterable[Credential], billing: str = "auto") -> Login:
    """The available credentials of one kind of billing: ``billing``, or with "auto" that of the first one."""
    available = [(source, kind) for source in sources if (kind := source.found()) and billing in ("auto", kind)]
    if not available:
        return Login()
    billing_kind = available[0][1]
    selected = [source for source, kind in available if kind == billing_kind]
    return Login(
        billing_kind,
        tuple(source.name for source in selected if not source.is_file),
        tuple(LoginFile(source.path().resolve(), _below_home(source.name)) for source in selected if source.is_file),
    )


def _below_home(name: str) -> str:
    if name.startswith("~/"):
        return os.path.normpath(name[2:])
    path = Path(os.path.normpath(name))
    return path.relative_to(Path.home()).as_posix() if path.is_relative_to(Path.home()) else ""
