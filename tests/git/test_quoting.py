"""Names as git prints them, and as git reads them back, for every name that a file can have."""

import os
import subprocess
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
    _git(folder, "init", "-q")
    return folder


def _git(folder: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C"}
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", "-c", "core.protectNTFS=false", "-c", "core.quotePath=false", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, input=stdin, capture_output=True, check=True, timeout=120
    ).stdout


def _put(folder: Path, rows: bytes, *options: str) -> list[bytes]:
    """The names in the index once it holds these rows only."""
    _git(folder, "read-tree", "--empty")
    _git(folder, "update-index", *options, "--index-info", stdin=rows)
    return _git(folder, "ls-files", "-z").split(b"\0")[:-1]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(TEXT, min_size=1, max_size=20, unique=True))
def test_a_name_is_quoted_as_git_prints_it(repository: Path, names: list[str]) -> None:
    order = _put(repository, b"".join(b"100644 %040d\t%s\0" % (1, name.encode()) for name in names), "-z")
    printed = _git(repository, "ls-files").split(b"\n")[:-1]
    assert [quote_path(os.fsdecode(raw)).encode() for raw in order] == printed


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(st.one_of(RAW, TEXT.map(str.encode)), min_size=1, max_size=20))
def test_git_reads_the_quoted_form_of_any_bytes_as_the_name_itself(repository: Path, names: list[bytes]) -> None:
    rows = b"".join(b"100644 %040d\t%s\n" % (1, quote_path(os.fsdecode(name)).encode()) for name in names)
    assert _put(repository, rows) == sorted(set(names))


def test_every_single_byte_and_what_turns_the_direction_of_writing_survives_quoting(repository: Path) -> None:
    names = [b"x" + bytes([byte]) + b"y" for byte in range(1, 256) if byte != ord("/")]
    rows = b"".join(b"100644 %040d\t%s\n" % (1, quote_path(os.fsdecode(name)).encode()) for name in names)
    assert _put(repository, rows) == sorted(names)
    names = [f"x{char}gnp.sh" for char in TURNING]
    quoted = [quote_path(name) for name in names]
    assert all(text.isascii() for text in quoted)
    rows = b"".join(b"100644 %040d\t%s\n" % (1, text.encode()) for text in quoted)
    assert _put(repository, rows) == sorted(name.encode() for name in names)


@given(RAW)
def test_a_quoted_name_can_be_printed_and_an_ordinary_one_is_left_alone(raw: bytes) -> None:
    quoted = quote_path(os.fsdecode(raw))
    quoted.encode()
    assert "\n" not in quoted
    assert quoted == os.fsdecode(raw) or quoted.startswith('"')
