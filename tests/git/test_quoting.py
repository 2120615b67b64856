"""Names as git prints them, and as git reads them back, for every name that a file can have."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from goalseek.git.paths import quote_path

RAW = st.binary(max_size=12).map(lambda raw: b"x" + raw.replace(b"\0", b"0").replace(b"/", b"|"))
TURNING = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
TEXT = st.text(st.characters(exclude_characters="\0/" + TURNING, exclude_categories=["Cs"]), max_size=12).map(
    "x".__add__
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", str(folder)], check=True, timeout=120)
    return folder


def _git(folder: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    command = ["git", "-c", "core.protectNTFS=false", "-c", "core.quotePath=false", *arguments]
    return subprocess.run(command, cwd=folder, input=stdin, capture_output=True, check=True, timeout=120).stdout


def _put(folder: Path, rows: bytes, *options: str) -> list[bytes]:
    """The names in the index once it holds these rows only."""
    _git(folder, "read-tree", "--empty")
    _git(folder, "update-index", *options, "--index-info", stdin=rows)
    return _git(folder, "ls-files", "-z").split(b"\0")[:-1]


def _read_back(folder: Path, names: Sequence[bytes]) -> list[bytes]:
    """The names that git reads from their quoted forms."""
    quoted = (quote_path(os.fsdecode(name)).encode() for name in names)
    return _put(folder, b"".join(b"100644 %040d\t%s\n" % (1, name) for name in quoted))


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(TEXT, min_size=1, max_size=20, unique=True))
def test_a_name_is_quoted_as_git_prints_it(repository: Path, names: list[str]) -> None:
    order = _put(repository, b"".join(b"100644 %040d\t%s\0" % (1, name.encode()) for name in names), "-z")
    printed = _git(repository, "ls-files").split(b"\n")[:-1]
    assert [quote_path(os.fsdecode(raw)).encode() for raw in order] == printed


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(st.one_of(RAW, TEXT.map(str.encode)), min_size=1, max_size=20))
def test_git_reads_the_quoted_form_of_any_bytes_as_the_name_itself(repository: Path, names: list[bytes]) -> None:
    assert _read_back(repository, names) == sorted(set(names))
    for name in map(os.fsdecode, names):
        quoted = quote_path(name)
        assert quoted.encode() and "\n" not in quoted and (quoted == name or quoted.startswith('"'))


def test_every_single_byte_and_what_turns_the_direction_of_writing_survives_quoting(repository: Path) -> None:
    names = [b"x" + bytes([byte]) + b"y" for byte in range(1, 256) if byte != ord("/")]
    assert _read_back(repository, names) == sorted(names)
    turned = [f"x{char}gnp.sh" for char in TURNING]
    assert all(quote_path(name).isascii() for name in turned)
    assert _read_back(repository, list(map(str.encode, turned))) == sorted(map(str.encode, turned))
