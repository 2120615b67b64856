"""Names that no candidate may plant: the table by itself, and through the real command line."""

import unicodedata
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from project import Project, answer
from shell_agent import better, play

from goalseek.git.location import locate
from goalseek.git.objects import Entry, TreeReader
from goalseek.git.paths import looks_like_git
from goalseek.git.repository import Repository
from goalseek.manifest.tables import ScopeTable
from goalseek.workspace.checkout import Changes
from goalseek.workspace.forbidden_names import (
    RULES,
    STANDARD_LIBRARY,
    TreePaths,
    doubles_back,
    fold_name,
    forbidden_names,
    import_shadowing,
    instruction_part,
    output_hazards,
)
from goalseek.workspace.scope import build_scope, follow_link
from goalseek.workspace.screening import Screening, TreeFiles

JUDGE = {"answer.json": answer(1), "hidden/judge.sh": 'cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"'}
EVERYTHING = {"writable": ["**", "!hidden"], "hidden": ["hidden/**"]}

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


@pytest.mark.parametrize(
    "path", ["random.py", "src/json.py", "json/__init__.py", "a/b/time.cpython-311.so", "socket.pyd", "_zstd.py"]
)
def test_a_top_level_module_named_like_the_standard_librarys_is_found(path: str) -> None:
    assert modules(path)


def test_within_a_package_such_a_name_is_the_packages_own() -> None:
    assert modules("pkg/types.py", there=["pkg/__init__.py"]) == []
    assert modules("pkg/types.py", added=["pkg/__init__.py"]) == [], "a whole package is new"
    assert modules("pkg/json/__init__.py", there=["pkg/__init__.py"]) == []
    assert modules("src/types.py", there=["src/main.py"], added=["src/__init__.py"]) == ["types.py"], (
        "a folder of scripts is not made a package by the one who wants to be imported there"
    )
    assert modules("types.py", added=["__init__.py"]) == ["types.py"]


def test_what_would_be_imported_in_place_of_another_module_is_found() -> None:
    assert modules("score/__init__.py", there=["score.py"]) == ["score"]
    assert modules("a/score.abi3.so", there=["a/score.py"]) == ["score.abi3.so"]
    assert modules("score.py", there=["score/__init__.py"]) == []
    assert modules("other/__init__.py", there=["score.py"]) == []
    assert modules("json/data.py") == modules("json.txt") == modules("Random.py") == modules("test/__init__.py") == []
    assert modules("json") == [] and modules("json", is_link=True) == ["json"]
    assert {"json", "random", "distutils", "telnetlib", "annotationlib", "_colorize"} <= STANDARD_LIBRARY
    assert "test" not in STANDARD_LIBRARY


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


PLANTED = {
    "conftest.py": "touch conftest.py",
    "tests/pytest.ini": "mkdir tests; touch tests/pytest.ini",
    "sitecustomize.py": "touch sitecustomize.py",
    "x.pth": "touch x.pth",
    "x.pyc": "touch x.pyc",
    ".gitattributes": "touch .gitattributes",
    ".gitmodules": "touch .gitmodules",
    "nested/.git/HEAD": "mkdir nested; cd nested; git init -q; touch x",
    "module/.git": "mkdir module; echo gitdir: ../.git > module/.git",
    "random.py": "touch random.py",
    "src/json/__init__.py": "git mv src/ordinary src/json",
    "src/ordinary/conftest.py": "mv src/ordinary/code.py src/ordinary/conftest.py",
    "src/tool/__init__.py": "mkdir src/tool; touch src/tool/__init__.py",
    "lines": "rm lines; mkdir lines; touch lines/conftest.py",
    "json": "ln -s src/ordinary json",
    "json.py": "ln -s answer.json json.py",
    "out": "ln -s ../../x out",
    "under": "ln -s src src/up; ln -s src/../../x under",
    "Hidden": "mkdir Hidden; touch Hidden/x",
    "ANSWER.json": "cp answer.json ANSWER.json",
    "answer.json. ": "cp answer.json 'answer.json. '",
    "hidden.": "mkdir hidden.; touch hidden./x",
    "twice": "touch twice Twice",
    "src/\u0065\u0301": "touch src/\u0065\u0301",
}


@pytest.mark.slow
def test_each_is_refused_by_name_and_rule(make_project: Callable[..., Project]) -> None:
    source = {"src/ordinary/__init__.py": "1\n", "src/ordinary/code.py": "1\n", "lines": "1\n", "src/\u00e9": "1\n"}
    project = make_project(files={**JUDGE, **source, "src/tool.py": "1\n"})
    records = play(
        project,
        *(f"{better(2)}; {step}" for step in PLANTED.values()),
        better(3),
        **{**EVERYTHING, "read_only": ["src/tool.py"]},
    )
    for name, record in zip(PLANTED, records, strict=False):
        assert (record["outcome"], record["reason"]) == ("skipped", "out_of_scope"), (name, record)
        assert name in record["why"], (name, record["why"])
    assert records[-1]["outcome"] == "kept"


def test_ordinary_work_and_existing_files_of_such_names_are_never_in_the_way(
    make_project: Callable[..., Project],
) -> None:
    ours = dict.fromkeys(("src/Foo.py", "conftest.py", "random.py"), "1\n")
    project = make_project(files={**JUDGE, **ours, ".gitignore": "*.egg-info/\n"})
    steps = [
        "mkdir src/pkg tests_new; touch src/utils.py src/pkg/__init__.py src/pkg/types.py tests_new/test_x.py",
        "mkdir -p src/x.egg-info src/__pycache__; touch src/x.egg-info/PKG-INFO src/__pycache__/conftest.pyc",
        "mv src/Foo.py src/foo.py; ln -s ../answer.json src/link",
        "echo 2 > conftest.py; echo 2 > random.py; chmod +x random.py",
    ]
    records = play(project, *(f"{better(2 + number)}; {step}" for number, step in enumerate(steps)), **EVERYTHING)
    assert [record["outcome"] for record in records] == ["kept"] * 4, [record["why"] for record in records]
    added = ["src/pkg/__init__.py", "src/pkg/types.py", "src/utils.py", "tests_new/test_x.py"]
    assert records[0]["changed_files"] == ["answer.json", *added]
    assert records[3]["changed_files"] == ["answer.json", "conftest.py", "random.py"]


def test_what_the_manifest_lists_by_name_may_be_added(make_project: Callable[..., Project]) -> None:
    project = make_project(files={**JUDGE, "src/x": "1\n", "tox.ini": "1\n"})
    scope = {**EVERYTHING, "writable": ["answer.json", "src/**", "conftest.py", "*.ini"]}
    allowed, refused = play(project, f"{better(2)}; touch src/conftest.py", f"{better(3)}; touch src/tox.ini", **scope)
    assert allowed["outcome"] == "kept" and "src/conftest.py" in allowed["changed_files"]
    assert refused["reason"] == "out_of_scope" and "tox.ini" in refused["why"]


TOUCHED = {
    "a change": ("echo 2 >> AGENTS.md", "AGENTS.md"),
    "a mode": ("chmod +x AGENTS.md", "AGENTS.md"),
    "a removal": ("rm CLAUDE.md", "CLAUDE.md"),
    "a folder that is removed": ("rm -r .claude", ".claude"),
    "a folder that becomes a file": ("rm -r .claude; touch .claude", ".claude"),
    "a folder that becomes a link": ("rm -r .claude; ln -s src .claude", ".claude"),
    "a file that becomes a folder": ("rm AGENTS.md; mkdir AGENTS.md; touch AGENTS.md/x", "AGENTS.md"),
    "a file that becomes a link": ("rm AGENTS.md; ln -s src/x AGENTS.md", "AGENTS.md"),
    "another spelling": ("mv AGENTS.md agents.md", "agents.md"),
    "another folder": ("mv AGENTS.md src/", "src/AGENTS.md"),
    "a new file": ("touch src/GEMINI.md", "GEMINI.md"),
    "a new link": ("ln -s src/x GEMINI.md", "GEMINI.md"),
    "a new file in a folder that is there": ("touch .claude/settings.local.json", ".claude"),
    "what a link leads to": ("echo 2 >> docs/house.md", "GEMINI.override.md is a link to it"),
    "what is in the folder that a link leads to": ("touch docs/rules/new.md", ".opencode is a link to it"),
    "a link on the way": ("ln -sf ../src/x docs/way.md", "GEMINI.override.md is a link to it"),
}


@pytest.mark.slow
def test_instructions_of_agents_stay_as_they_are_unless_they_are_listed_by_name(
    make_project: Callable[..., Project],
) -> None:
    files = dict.fromkeys(("AGENTS.md", "CLAUDE.md", ".claude/settings.json", "docs/house.md", "src/x"), "1\n")
    project = make_project(files={**JUDGE, **files, "docs/rules/a.md": "1\n"})
    (project.top / "docs/way.md").symlink_to("house.md")
    (project.top / "GEMINI.override.md").symlink_to("docs/way.md")
    (project.top / ".opencode").symlink_to("docs/rules")
    project.commit()
    touched = "touch AGENTS.md; cp CLAUDE.md x; cp x CLAUDE.md; rm x; touch .aider.chat.history.md"
    steps = [*(step for step, _ in TOUCHED.values()), touched]
    records = play(project, *(f"{better(number)}; {step}" for number, step in enumerate(steps, 2)), **EVERYTHING)
    for (name, (_, part)), record in zip(TOUCHED.items(), records, strict=False):
        assert (record["outcome"], record["reason"]) == ("skipped", "out_of_scope"), (name, record)
        assert part in record["why"] and "in scope.writable if it is wanted" in record["why"], (name, record["why"])
    assert (records[-1]["outcome"], records[-1]["changed_files"]) == ("kept", ["answer.json"]), records[-1]["why"]


@pytest.mark.slow
def test_instructions_that_are_listed_by_name_are_a_candidates_like_other_files(
    make_project: Callable[..., Project],
) -> None:
    files = dict.fromkeys(("AGENTS.md", "CLAUDE.md", ".claude/settings.json", "docs/house.md"), "1\n")
    project = make_project(files={**JUDGE, **files})
    (project.top / "GEMINI.md").symlink_to("docs/house.md")
    links = {"AGENTS.override.md": "two.md", "CLAUDE.local.md": "two.md", "GEMINI.local.md": "three.md"}
    for name, target in links.items():
        (project.top / name).symlink_to(f"docs/{target}")
    project.commit()
    steps = [
        "echo 2 >> AGENTS.md; rm CLAUDE.md; touch .claude/x src; echo 2 >> docs/house.md",
        "touch CLAUDE.md docs/three.md",
        "rm GEMINI.md",
        "touch docs/two.md",
    ]
    names = ["AGENTS.md", "CLAUDE.md", ".claude/**", "docs/house.md", "CLAUDE.local.md", "GEMINI.local.md"]
    kept, again, *refused = play(
        project,
        *(f"{better(number)}; {step}" for number, step in enumerate(steps, 2)),
        writable=["**", *names, "!hidden"],
        hidden=["hidden/**"],
    )
    changed = [".claude/x", "AGENTS.md", "CLAUDE.md", "answer.json", "docs/house.md", "src"]
    assert (kept["outcome"], kept["changed_files"]) == ("kept", changed), kept["why"]
    assert again["outcome"] == "kept" and "docs/three.md" in again["changed_files"], again["why"]
    assert [record["reason"] for record in refused] == ["out_of_scope"] * 2
    assert "AGENTS.override.md is a link to it" in refused[1]["why"], "of two links one is not listed"


LINKS = {
    "ln -s ../hidden src/l": "src/l is a link to hidden",
    "ln -s ../hidden/judge.sh src/l": "src/l is a link to hidden/judge.sh",
    "ln -s .. src/l": "src/l is a link to .,",
    "ln -s ../data src/l": "src/l is a link to data",
    "ln -s ../data/open.txt src/l": "src/l is a link to data/open.txt",
    "ln -s ../nothing src/l": "src/l is a link to nothing",
    "ln -s theirs src/l": "src/l is a link to data",
    "ln -s ../src/theirs/labels.txt src/l": "src/l is a link to data/labels.txt",
    "ln -s round src/l": "src/l is a link that leaves the tree, or leads in a circle",
    "ln -s out src/l": "src/l is a link that leaves the tree, or leads in a circle",
    "ln -sfn ../hidden src/theirs": "src/theirs is a link to hidden",
    "mkdir src/new; ln -s ../../hidden src/new/l": "src/new/l is a link to hidden",
}


@pytest.mark.slow
def test_a_link_leads_to_what_is_the_candidates_or_it_is_refused(make_project: Callable[..., Project]) -> None:
    files = {"src/code.py": "1\n", "src/deep/x": "1\n", "data/open.txt": "1\n", "data/labels.txt": "1\n"}
    project = make_project(files={**JUDGE, **files})
    for name, target in {"theirs": "../data", "round": "around", "around": "round", "out": "../../x"}.items():
        (project.top / "src" / name).symlink_to(target)
    project.commit()
    good = "ln -s code.py src/a; ln -s deep src/b; ln -s ../src/later src/c; ln -s a src/d; touch src/out.py"
    records = play(
        project,
        *(
            f"{better(number)}; {step}"
            for number, step in enumerate((*LINKS, good, "ln -s a src/e; touch src/code.py"), 2)
        ),
        writable=["answer.json", "src/**"],
        hidden=["hidden/**", "data/labels.txt"],
    )
    for (step, why), record in zip(LINKS.items(), records, strict=False):
        assert record["reason"] == "out_of_scope" and why in record["why"], (step, record["why"])
    kept = [(record["outcome"], record["changed_files"]) for record in records[-2:]]
    links = [f"src/{name}" for name in ("a", "b", "c", "d")]
    assert kept == [("kept", ["answer.json", *links, "src/out.py"]), ("kept", ["answer.json", "src/e"])], records[-1][
        "why"
    ]


def test_a_link_is_followed_as_the_kernel_does() -> None:
    links = {"a/up": "..", "b": "c", "c": "d/e", "round": "round", "out": "../x", "far": "/etc"}

    def end(path: str, target: str) -> list[str]:
        return follow_link(path, target, links.get)

    assert end("a/l", "up/x") == ["a/up", "x"] and end("a/l", "../b/./x") == ["b", "c", "d/e/x"]
    assert end("l", ".") == [""] and end("a/l", "x//y/") == ["a/x/y"]
    assert [end("l", target) for target in ("round", "out", "far/x", "..")] == [[]] * 4


def test_a_new_file_below_a_file_that_is_not_the_candidates_is_refused(project: Project) -> None:
    repository = Repository(locate(project.top), "demo")
    objects, scope = repository.objects, build_scope("", ScopeTable(writable=("**/x",)))
    try:
        tree, entry = project.git("rev-parse", "HEAD^{tree}"), Entry("100644", objects.write_bytes(b"new"))
        files = {"other.txt/deep/x": entry, "new/x": entry}
        changes, nothing = Changes(added=tuple(files)), lambda path: False
        screened = Screening({}, TreeFiles(files, objects), objects, TreeReader(objects, tree), scope, nothing, {})
        screened.screen(changes)
        assert screened.refused == ["other.txt/deep/x lies below other.txt, which is not the candidate's to edit"]
        assert screened.edits == {"new/x": entry}
    finally:
        repository.close()


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
