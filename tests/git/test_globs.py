"""The list of globs against git itself: what ``git check-ignore`` says of the same patterns and the same files."""

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from goalseek.git.ignore import compile_pattern, matcher

FOLDERS = ("", "a/", "src/", "a/src/", "src/a/", "src/a/b1/", "src/.h/", "a/src/a/")
NAMES = ("f", "a", "b1", "x.py", "src", "a.py", "a-b.c", ".h", "x y", "z]", "[q", "back\\slash", "B", "a*b", "!n", "#c")
# The same name cannot be a folder and a file, and a folder's name cannot hold a dot where negations are compared.
PATHS = tuple(path for path in (folder + name for folder in FOLDERS for name in NAMES) if f"{path}/" not in FOLDERS)
FILE_PARTS = ("x.py", "a.py", "*.py", "?.py", "*.c", "[a-x].py", "a-b.*", "*-b.c")

PIECES = r"""
a b1 src * ? ** x.py *.py [ab] [!a] [^a]* [a-c]1 []z]* z] [z-a] \* a\*b .h .* [a]** **c *** [[:alpha:]] [[:upper:]]
[[:punct:]]* [a-]* [\]z]* *.[pc]y [!-]-b.c back\\slash \[q [[]q [+--]* [&&~~] [q a\
"""
piece = st.sampled_from(["x y", *PIECES.split()])
pattern = st.builds(
    lambda start, parts, end: start + "/".join(parts) + end,
    st.sampled_from(["", "", "/"]),
    st.lists(piece, min_size=1, max_size=4),
    st.sampled_from(["", "", "/", "/**"]),
)
file_pattern = st.builds(
    lambda start, folder, name: start + folder + name,
    st.sampled_from(["", "!"]),
    st.sampled_from(["", "/", "src/", "**/a/", "src/**/"]),
    st.sampled_from(FILE_PARTS),
)


@pytest.fixture(scope="module")
def repository() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        subprocess.run(["git", "init", "-q", name], check=True, timeout=120)
        for path in PATHS:
            Path(name, path).parent.mkdir(parents=True, exist_ok=True)
            Path(name, path).touch()
        yield Path(name)


def _ignored(folder: Path, patterns: list[str]) -> set[str]:
    (folder / ".git/info/exclude").write_bytes("".join(f"{pattern}\n" for pattern in patterns).encode())
    command, paths = ["git", "check-ignore", "-z", "--no-index", "--stdin"], "\0".join(PATHS).encode()
    done = subprocess.run(command, cwd=folder, input=paths, capture_output=True, timeout=120)
    assert done.returncode in (0, 1), done.stderr
    return set(done.stdout.decode().split("\0")) - {""}


def _matched(patterns: list[str]) -> set[str]:
    matches = matcher(patterns)
    return {path for path in PATHS if matches(path)}


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(patterns=st.lists(pattern, min_size=1, max_size=3))
@example(patterns=["src/**"])
@example(patterns=["**/src/**/a.py"])
@example(patterns=["src/a/"])
@example(patterns=["[z-a]"])
@example(patterns=["src[.-0]a"])
@example(patterns=["\\!n", "\\#c"])
@pytest.mark.slow
def test_a_list_of_patterns_matches_the_files_that_git_ignores_by_it(repository: Path, patterns: list[str]) -> None:
    assert _matched(patterns) == _ignored(repository, patterns)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(patterns=st.lists(file_pattern, min_size=2, max_size=5))
def test_the_last_pattern_that_matches_a_file_decides_as_in_git(repository: Path, patterns: list[str]) -> None:
    assert _matched(patterns) == _ignored(repository, patterns)


@pytest.mark.parametrize(
    ("patterns", "matched", "others"),
    [
        *((["src/**", back], ["src/x.py"], ["src/vendor/deep/x.py"]) for back in ("!src/vendor", "!src/vendor/")),
        (["src/**", "!src/vendor/**"], ["src/x.py"], ["src/vendor/deep/x.py"]),
        (["*.py", "!vendor/", "vendor/keep.py"], ["x.py", "vendor/keep.py"], ["vendor/x.py"]),
        (["./run.py"], ["run.py"], ["deep/run.py"]),
        (["?.txt"], ["é.txt"], ["éé.txt"]),
        (["hidden/**"], ["hidden/a\nb", os.fsdecode(b"hidden/\xff")], ["b"]),
        *((nothing, [], ["x"]) for nothing in ([], [""], [" "])),
        *(
            (["".join(f"\\{char}" for char in name)], [name, f"deep/{name}"], [f"{name}x"])
            for name in ("plain.py", "a b", "[x]", *"*?\\#!")
        ),
    ],
)
def test_a_list_matches_these_and_not_those(patterns: list[str], matched: list[str], others: list[str]) -> None:
    assert [path for path in (*matched, *others) if matcher(patterns)(path)] == matched


@settings(max_examples=300)
@given(st.text(min_size=1, max_size=12), st.text(max_size=12))
def test_no_pattern_is_too_odd_and_what_it_matches_covers_what_lies_below(odd: str, path: str) -> None:
    expression = compile_pattern(odd)
    assert expression.fullmatch(f"{path}/below") or not expression.fullmatch(path)


@pytest.mark.parametrize("part", ["[", "[a", "[!", "[[:"])
def test_classes_without_an_end_take_no_more_time_than_their_length(part: str) -> None:
    begin = time.process_time()
    assert not compile_pattern(part * 10_000).fullmatch(part)
    assert time.process_time() - begin < 5
