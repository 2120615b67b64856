"""Names that no candidate may plant, modules that shadow others, and where a link ends: the rules by themselves."""

import unicodedata
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from goalseek.git.paths import fold_name, looks_like_git
from goalseek.manifest.tables import ScopeTable
from goalseek.workspace.forbidden_names import (
    RULES,
    STANDARD_LIBRARY,
    TreePaths,
    forbidden_names,
    import_shadowing,
    instruction_part,
    output_hazards,
)
from goalseek.workspace.scope import build_scope, doubles_back, follow_link

REFUSED = """conftest.py src/deep/conftest.py pytest.ini .pytest.ini tox.ini setup.cfg pyproject.toml .coveragerc
    sitecustomize.py lib/usercustomize.py usercustomize/__init__.py sitecustomize.cpython-311-x86_64-linux-gnu.so x.pth
    a/b.PTH x.pyc src/x.pyo .gitattributes .gitmodules a/.gitignore .GitAttributes .github/workflows/x.yml
    .git\u200cmodules gitmod~1 GI7EBA~1 a\\.gitmodules evil.dist-info/entry_points.txt
    src/evil.egg-info/entry_points.txt Conftest.py""".split()
INSTRUCTIONS = """AGENTS.md src/AGENTS.override.md agents.MD CLAUDE.md CLAUDE.local.md GEMINI.md docs/CONTEXT.md .mcp.json
    opencode.json a/opencode.jsonc .claude/settings.json .claude .codex/config.toml .gemini/hooks/x .opencode/plugin/x.ts
    .agents/skills/x/SKILL.md .aider.conf.yml .cursor/rules/x.mdc .cursorrules .github/copilot-instructions.md .env
    src/.env.local .env.test.local
    AGENTS\u200b.md .Claude./settings.json""".split()
ORDINARY = """src/utils.py tests_new/test_x.py conftest.md my_conftest.py x.pythonic git/x legit.txt docs/setup.cfg.md
    weights.pt gitgit~ digits~1 sitecustomize.md agents.py docs/my-agents.md claude/x.md gemini.toml copilot-x.md
    docs/opencode.md .env.example my.env .envrc""".split()


def test_a_name_that_hijacks_the_next_program_has_a_rule_that_says_why_and_an_ordinary_one_none() -> None:
    assert [path for path in REFUSED if not list(forbidden_names(path))] == []
    assert [path for path in ORDINARY if list(forbidden_names(path)) or looks_like_git(path)] == []
    whys = {why for path in REFUSED for _, why in forbidden_names(path)}
    assert whys == {rule.why for rule in RULES} and all(whys)
    assert [path for path in INSTRUCTIONS if not instruction_part(path)] == []
    assert [path for path in (*REFUSED, *ORDINARY) if instruction_part(path)] == []


@given(st.sampled_from([*REFUSED, *INSTRUCTIONS]), st.lists(st.sampled_from(["a", "src", "é"]), max_size=3), st.data())
def test_neither_folder_nor_case_nor_invisible_characters_hide_such_a_name(
    path: str, folders: list[str], data: st.DataObject
) -> None:
    spelt = "".join(char.upper() if data.draw(st.booleans()) else char.lower() for char in path)
    place = data.draw(st.integers(0, len(spelt)))
    hidden = spelt[:place] + data.draw(st.sampled_from(["", "\u200b", "\ufeff"])) + spelt[place:]
    assert list(forbidden_names("/".join([*folders, hidden])))


def modules(path: str, there: Iterable[str] = (), added: Iterable[str] = (), is_link: bool = False) -> list[str]:
    """The parts of the path that shadow; ``there`` are files of the tree, none of them the candidate's."""
    files = set(there)
    known = files | {"/".join(file.split("/")[:depth]) for file in files for depth in range(1, file.count("/") + 1)}
    tree = TreePaths(known.__contains__, {path, *added}.__contains__, files.__contains__)
    found = import_shadowing(path, is_link, tree)
    return [part for part, _ in found]


SHADOWS = {  # a new path; files that are there, files that are new with it; what shadows
    "random.py": ("", "", "random.py"),
    "src/json.py": ("", "", "json.py"),
    "json/__init__.py": ("", "", "json"),
    "a/b/time.cpython-311.so": ("", "", "time.cpython-311.so"),
    "socket.pyd": ("", "", "socket.pyd"),
    "_zstd.py": ("", "", "_zstd.py"),
    "pkg/types.py": ("pkg/__init__.py", "", ""),  # within a package such a name is its own
    "new/types.py": ("", "new/__init__.py", ""),
    "pkg/json/__init__.py": ("pkg/__init__.py", "", ""),
    "src/types.py": ("src/main.py", "src/__init__.py", "types.py"),  # no folder of scripts becomes a package so
    "types.py": ("", "__init__.py", "types.py"),
    "score/__init__.py": ("score.py", "", "score"),
    "a/score.abi3.so": ("a/score.py", "", "score.abi3.so"),
    "score.py": ("score/__init__.py", "", ""),
    "other/__init__.py": ("score.py", "", ""),
    **dict.fromkeys(("json/data.py", "json.txt", "Random.py", "test/__init__.py", "json"), ("", "", "")),
}


def test_what_would_be_imported_in_place_of_another_module_is_found() -> None:
    for path, (there, added, part) in SHADOWS.items():
        assert modules(path, there.split(), added.split()) == part.split(), path
    assert modules("json", is_link=True) == ["json"]
    assert {"json", "random", "distutils", "telnetlib", "annotationlib", "_colorize"} <= STANDARD_LIBRARY


@given(st.text(st.sampled_from("aA\u00e9\u00c9\u00df\u017f\u0131\u0130\u0301\u200d"), max_size=6))
def test_names_of_one_spelling_are_alike(name: str) -> None:
    for form in ("NFC", "NFD"):
        assert fold_name(unicodedata.normalize(form, name)) == fold_name(name)  # type: ignore[arg-type]
    assert fold_name(fold_name(name)) == fold_name(name)
    if name.isascii():
        assert fold_name(name.upper()) == fold_name(name)


@given(st.lists(st.sampled_from(["..", ".", "", "a", "b"]), max_size=6))
def test_a_target_doubles_back_where_a_name_comes_before_a_step_up(parts: list[str]) -> None:
    named = [part for part in parts if part not in ("", ".")]
    expected = any(part != ".." and ".." in named[place:] for place, part in enumerate(named))
    assert doubles_back("/".join(parts)) == expected


WRITABLE = ("src/**", "conftest.py", "a/tox.ini", ".github/**", "*.ini", "!b/conftest.py")


def test_a_name_is_listed_only_in_so_many_letters() -> None:
    whose = build_scope("sub/", ScopeTable(writable=WRITABLE))
    assert whose.names("sub/conftest.py", "conftest.py") and whose.names("sub/x/conftest.py", "conftest.py")
    assert whose.names("sub/a/tox.ini", "tox.ini") and not whose.names("sub/b/tox.ini", "tox.ini")
    assert whose.names("sub/.github/x/y.yml", ".github")
    assert not whose.names("sub/src/pytest.ini", "pytest.ini") and not whose.names("conftest.py", "conftest.py")


def test_a_project_in_a_folder_of_agents_is_a_project_like_others() -> None:
    scope = build_scope(".claude/skills/x/", ScopeTable(writable=("**", "GEMINI.md")))
    paths = ("run.py", "AGENTS.md", "GEMINI.md", "../y.py")
    kinds = [scope.kind(f".claude/skills/x/{path}".replace("x/../", "")) for path in paths]
    assert kinds == ["writable", "kept", "writable", "other"]


def test_a_link_is_followed_as_the_kernel_does() -> None:
    links = {"a/up": "..", "b": "c", "c": "d/e", "round": "round", "out": "../x", "far": "/etc"}

    def end(path: str, target: str) -> list[str]:
        return follow_link(path, target, links.get)

    assert end("a/l", "up/x") == ["a/up", "x"] and end("a/l", "../b/./x") == ["b", "c", "d/e/x"]
    assert end("l", ".") == [""] and end("a/l", "x//y/") == ["a/x/y"]
    assert [end("l", target) for target in ("round", "out", "far/x", "..")] == [[]] * 4


def test_what_a_command_hands_on_is_refused_where_a_later_one_would_look() -> None:
    tree = {"src", "src/tool.py", "score.py"}
    paths = TreePaths(tree.__contains__, is_fixed=tree.__contains__)

    def refused(path: str) -> list[str]:
        return [part for part, _ in output_hazards(path, paths)]

    for path, part in {
        "json.py": "json.py",
        "json/__init__.py": "json",
        "conftest.py": "conftest.py",
        "src/x.pyc": "x.pyc",
        "src/tool/__init__.py": "tool",
        "sitecustomize/__init__.py": "sitecustomize",
        "x.egg-info/entry_points.txt": "x.egg-info",
    }.items():
        assert part in refused(path), path
    for path in ("out/json.py", "build/lib/conftest.py", "build/json/__init__.py", "model.json", "src/weights.bin"):
        assert refused(path) == [], path
