"""``results.jsonl`` torn, emptied, removed, padded: the same records afterwards, or a stop that says the way on."""

from collections.abc import Callable
from pathlib import Path

import pytest
from project import Project, answer

from goalseek.errors import GoalseekError
from goalseek.ledger.results_file import History, Snapshot, repair


@pytest.fixture(scope="module")
def lines() -> list[str]:
    return [f'{{"schema":1,"seq":{seq},"why":"{"x" * (30 + seq)}"}}' for seq in range(5)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.jsonl"


def mended(path: Path, lines: list[str]) -> str:
    """Brings the file to the lines; gives what was done, in words."""
    return repair(History(path), reversed(lines), Snapshot())


def whole(lines: list[str]) -> bytes:
    return "".join(line + "\n" for line in lines).encode()


@pytest.mark.slow
@pytest.mark.parametrize("rest", [b"", b"\0"], ids=["cut", "zeros, as after a power cut"])
def test_torn_at_any_byte_of_its_last_two_lines_the_same_lines_are_there_again(
    path: Path, lines: list[str], rest: bytes
) -> None:
    wanted = whole(lines)
    for size in range(len(whole(lines[:-2])), len(wanted)):
        path.write_bytes(wanted[:size] + rest * (len(wanted) - size))
        assert "torn" in mended(path, lines)
        assert path.read_bytes() == wanted, size
    assert mended(path, lines) == ""


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: b"",
        lambda raw: None,
        lambda raw: raw[:-1],
        lambda raw: raw + b"garbage \xff\x00",
        lambda raw: raw + b"\0" * 5000,
        lambda raw: raw[:40],
        lambda raw: b"".join(raw.splitlines(keepends=True)[-1:]),
        lambda raw: b"".join(raw.splitlines(keepends=True)[2:4]),
    ],
    ids=["empty", "missing", "no newline", "garbage", "zeros", "in the first line", "only the last", "a middle part"],
)
def test_what_only_lacks_lines_is_mended_and_said_so(
    path: Path, lines: list[str], change: Callable[[bytes], bytes | None]
) -> None:
    content = change(whole(lines))
    if content is not None:
        path.write_bytes(content)
    assert "results.jsonl" in mended(path, lines)
    assert path.read_bytes() == whole(lines)


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: raw.replace(b"\n", b"\r\n"),
        lambda raw: raw + b"garbage \xff\n",
        lambda raw: raw + b"\n",
        lambda raw: raw + b"\0" * 100 + b"\n",
        lambda raw: raw + raw.splitlines(keepends=True)[-1],
        lambda raw: raw.replace(b'"seq":1', b'"seq":7'),
        lambda raw: b"".join(line for line in raw.splitlines(keepends=True) if b'"seq":2' not in line),
        lambda raw: b"garbage\n" + raw,
        lambda raw: raw.replace(b"x", b"\xff", 1),
    ],
    ids=["CRLF", "garbage", "empty line", "zeros", "twice", "edited", "a gap", "garbage first", "no UTF-8"],
)
def test_what_git_does_not_know_is_refused_and_left_as_it_is(
    path: Path, lines: list[str], change: Callable[[bytes], bytes]
) -> None:
    content = change(whole(lines))
    path.write_bytes(content)
    with pytest.raises(GoalseekError) as refused:
        mended(path, lines)
    assert (refused.value.exit_code, refused.value.stop_reason) == (3, "tampered")
    assert f"mv {path} " in refused.value.hint or "audit --rebuild" in refused.value.hint
    assert path.read_bytes() == content


def test_without_any_record_in_git_there_is_nothing_to_mend(path: Path) -> None:
    assert mended(path, []) == ""
    path.write_bytes(b"to")
    assert "torn" in mended(path, [])
    assert path.read_bytes() == b""


@pytest.mark.slow
def test_the_command_line_goes_on_from_a_torn_file_and_from_one_that_was_put_away(project: Project) -> None:
    project.set_moves(answer(2), answer(3), answer(4), answer(5))
    project.climb("iterate", "-n", "2")
    path = project.results
    content = path.read_bytes()
    path.write_bytes(content[:-200] + b"\0" * 200)
    ended = project.run("-v", "iterate")
    assert ended.exit_code == 0 and "torn" in ended.stderr
    assert path.read_bytes().startswith(content) and len(project.iterations()) == 4
    content = path.read_bytes()
    path.write_bytes(content.replace(b"\n", b"\r\n"))
    ended = project.run("iterate")
    assert ended.exit_code == 3 and "Traceback" not in ended.stderr
    path.rename(path.with_suffix(".old"))
    assert len(project.climb()) == 5
    assert path.read_bytes().startswith(content)
    assert project.run("audit").exit_code == 0
