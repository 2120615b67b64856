"""Whose a file is: precedence of the lists, the manifest's folder, and names that no candidate may bring."""

import os.path
import subprocess
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from goalseek.git.paths import first_overlap, looks_like_git
from goalseek.manifest.tables import ScopeTable
from goalseek.workspace.scope import Scope, build_scope, is_tool_cache, leaves_tree, overlap_matcher

part = st.sampled_from(["a", "b", "src", "hidden", "x.py", "y.txt", "é", "a b"])
path = st.lists(part, min_size=1, max_size=4).map("/".join)
glob = st.sampled_from(["*", "*.py", "src/", "src/**", "hidden/**", "a", "/a", "**/b", "x.py", "é"])
globs = st.lists(glob, max_size=3)
ORDER = ("hidden", "read_only", "generated", "writable")


def scope_of(prefix: str = "", *, writable: Sequence[str] = (), **lists: Sequence[str]) -> Scope:
    tables = {name: tuple(patterns) for name, patterns in lists.items()}
    return build_scope(prefix, ScopeTable(writable=tuple(writable), **tables))  # type: ignore[arg-type]


@given(path, globs, globs, globs, globs)
def test_the_first_list_in_the_order_of_precedence_that_matches_decides(
    name: str, writable: list[str], generated: list[str], read_only: list[str], hidden: list[str]
) -> None:
    lists = {"hidden": hidden, "read_only": read_only, "generated": generated, "writable": writable}
    alone = [kind for kind in ORDER if scope_of(**{kind: lists[kind]}).kind(name) == kind]
    expected = alone[0] if alone else "other"
    assert scope_of(**lists).kind(name) == expected


@given(path, globs, globs)
def test_globs_hold_below_the_manifests_folder_only(name: str, writable: list[str], hidden: list[str]) -> None:
    whole = scope_of(writable=writable, hidden=hidden)
    below = scope_of("sub/dir/", writable=writable, hidden=hidden)
    assert below.kind(f"sub/dir/{name}") == whole.kind(name)
    assert below.kind(f"other/{name}") == "other"
    assert below.kind("sub/dir") == "other"


@given(path, globs, globs, globs, globs)
def test_hidden_files_are_never_in_the_tree_of_the_agent_or_of_a_candidates_command(
    name: str, writable: list[str], generated: list[str], read_only: list[str], hidden: list[str]
) -> None:
    whose = scope_of(writable=writable, generated=generated, read_only=read_only, hidden=hidden)
    kind = whose.kind(name)
    assert whose.seen_by("agent")(name) == whose.seen_by("candidate")(name) == (kind != "hidden")
    assert whose.seen_by("hidden")(name) == whose.in_ruler(name) == (kind not in ("writable", "generated"))
    assert whose.seen_by("both")(name)


def test_names_that_some_file_system_takes_for_a_repository_and_caches_of_tools_are_recognised() -> None:
    like_git = ".git|.GIT|.Git/config|a/.git/hooks/x|git~1|GIT~2/x|.git |.git.|.g\u200cit|.g\u0131t|sub/.gIt. ."
    ordinary = ".gitignore|.github/x|git|a.git|git~|.git~1|agit~1|legit/x"
    assert [name for name in f"{like_git}|{ordinary}".split("|") if looks_like_git(name)] == like_git.split("|")
    caches = ["__pycache__/x.pyc", "a/__pycache__/x.pyc", ".pytest_cache/v/x", "a/.DS_Store"]
    others = ["x.pyc", "src/pycache/x", "DS_Store", "__pycache__"]
    assert [name for name in (*caches, *others) if is_tool_cache(name)] == caches


@given(path, st.lists(st.sampled_from(["..", ".", "", "a", "b"]), min_size=1, max_size=6).map("/".join))
def test_a_link_leaves_the_tree_where_its_target_read_as_text_climbs_above_the_root(name: str, target: str) -> None:
    if target.startswith("/"):
        assert leaves_tree(name, target)
        return
    deep = "/root/of/tree/" + "deep/" * 8
    steps = [step for step in (os.path.dirname(name) + "/" + target).split("/") if step not in ("", ".")]
    lowest = min(len(os.path.normpath(deep + "/".join(steps[:count])).split("/")) for count in range(len(steps) + 1))
    assert leaves_tree(name, target) == (lowest < len(os.path.normpath(deep).split("/")))


def test_paths_overlap_where_they_are_the_same_or_one_lies_below_the_other() -> None:
    names = "a a/b a/b/c a/bc ab a/c x/y/z xy".split()
    assert [name for name in names if first_overlap("a/b", [name])] == ["a", "a/b", "a/b/c"]
    assert list(filter(overlap_matcher(["a/b", "x"]), names)) == ["a", "a/b", "a/b/c", "x/y/z"]


def test_git_itself_refuses_the_names_that_look_like_its_own(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    environment |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, env=environment, check=True, timeout=120)
    options = ["-c", "core.protectNTFS=true", "-c", "core.protectHFS=true"]
    for name in (".git/x", ".GIT/x", "git~1/x", ".git ./x", ".g\u200cit/x", "a/.Git/x"):
        row = f"100644 {'0' * 39}1\t{name}\n".encode()
        command = ["git", *options, "update-index", "--index-info"]
        done = subprocess.run(command, cwd=tmp_path, env=environment, input=row, capture_output=True, timeout=120)
        assert done.stderr.startswith(b"Ignoring path")
        assert looks_like_git(name)
