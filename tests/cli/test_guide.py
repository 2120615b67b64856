"""``goalseek help`` and the pages of the guide: what they and the README show is there, parses and is short enough."""

import contextlib
import math
import os
import random
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pages import GUIDE, PAGES, README, blocks_in, commands
from project import Project
from schemas import REASONS

from goalseek import errors
from goalseek.cli import main
from goalseek.cli.commands.help import OTHER_NAMES
from goalseek.cli.registry import COMMANDS, topics
from goalseek.errors import Interrupted, exit_code_of_interrupt
from goalseek.humanize import first_sentence
from goalseek.manifest import validation
from goalseek.manifest.tables import Manifest
from goalseek.measurement.verifier import STOP_THE_RUN, UNJUDGEABLE
from goalseek.values import EXIT_CODES, StopReason
from goalseek.views.terminal_text import strip_colour

LONGEST_PAGE = 150
BASE: dict[str, Any] = {
    "version": 1,
    "project": {"name": "demo"},
    "scope": {"writable": ["src/**"]},
    "metric": {"direction": "maximize"},
    "verify": [{"run": "make check"}, {"run": "make score", "name": "score"}],
}


@pytest.fixture(params=PAGES, ids=lambda path: path.stem)
def page(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def test_a_page_has_a_title_a_first_sentence_and_an_end(page: Path) -> None:
    text = page.read_text()
    assert re.match(r"# \S.*\n\n\S", text)
    assert 10 < len(first_sentence(text)) <= (100 if page != README else 250)
    assert len(text.splitlines()) <= LONGEST_PAGE or page == README
    assert text.count("```") % 2 == 0


def test_every_command_of_a_page_parses(page: Path) -> None:
    found = commands(page.read_text())
    for words in found:
        if not words or words[0].isupper() or words[1:2] == ["TOPIC"] or words[0].isdigit():
            continue  # it stands for any, or it is the subject of a commit
        at = next((place for place, word in enumerate(words) if word in COMMANDS), 0)
        with contextlib.suppress(SystemExit):  # --help
            main._parse_command(words, words[:at], words[at:])


def test_every_manifest_of_a_page_is_valid(page: Path) -> None:
    """A block of some tables is completed; one of other tables, such as a script's, is TOML."""
    for body in blocks_in(page.read_text(), "toml"):
        given = tomllib.loads(body)
        if given.keys() <= set(Manifest.__struct_fields__):
            whole: dict[str, Any] = {
                key: BASE.get(key, {}) | value if isinstance(value, dict) else value for key, value in given.items()
            }
            if not {"query", "regex", "source"} & whole.get("metric", {}).keys():
                whole["metric"] = {**BASE["metric"], **whole.get("metric", {}), "query": "score"}
            assert validation.validate(page, body, {**BASE, **whole}).version == 1


@pytest.mark.parametrize(
    ("error", "missing", "is_right"), [(1e-12, 0, True), (1e-6, 0, False), (math.nan, 0, False), (0.0, 1, False)]
)
def test_the_float_check_allows_a_small_error(error: float, missing: int, is_right: bool, tmp_path: Path) -> None:
    (script,) = blocks_in((GUIDE / "recipe-cpp.md").read_text(), "python")
    generator = random.Random(5)
    answer = [math.sqrt(generator.random()) * (1 + error) for _ in range(1000 - missing)]
    (tmp_path / "answer.txt").write_text("".join(f"{value!r}\n" for value in answer))
    ended = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, timeout=60, check=False)
    assert (ended.returncode == 0) == is_right, ended.stderr


def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if not target.startswith(("http:", "https:", "#")):
            assert (page.parent / target.partition("#")[0]).exists(), target


def test_what_a_page_may_not_have_is_found() -> None:
    text = "`goalseek iterate --fast`\n\n```sh\ncd x && goalseek shw 12 > y\n```\n```console\n$ goalseek show best\nx\n```\n"
    assert commands(text) == [["shw", "12"], ["show", "best"], ["iterate", "--fast"]]
    assert commands("```cron\n* * cd a && P=b goalseek iterate --no-wait >>l 2>&1\n```") == [["iterate", "--no-wait"]]
    assert commands("```ini\nExecStart=%h/.local/bin/goalseek iterate --forever\n```") == [["iterate", "--forever"]]
    assert commands("```sh\njournalctl -u goalseek -f\n```\n```yaml\n- run: goalseek log && x\n```") == [["log"]]
    with pytest.raises(main.GoalseekError):
        main._parse_command(["shw", "12"], [], ["shw", "12"])


def test_help_lists_the_pages_and_shows_each(project: Project) -> None:
    listed = project.run("help").stdout
    assert all(f"\n  {topic} " in listed for topic in topics())
    for topic in ("prompts", "noise"):
        text = (GUIDE / f"{topic}.md").read_text()
        shown = project.run("help", topic).stdout
        assert shown.startswith(text) and (shown != text) == (topic in COMMANDS)
    rows = project.ask("help")
    assert [row["topic"] for row in rows] == sorted(path.stem for path in GUIDE.glob("*.md"))
    assert project.ask("help", "prompts")["text"].startswith("# The prompts")


def test_help_of_a_command_is_its_own_and_of_nothing_names_what_is_near(project: Project) -> None:
    assert project.run("help", "doctor").stdout == project.run("doctor", "--help").stdout != ""
    for name, topic in (("guards", "manifest-metric"), ("outage", "agents"), ("interpreter", "troubleshooting")):
        assert project.run("help", name).stdout == project.run("help", topic).stdout
    assert "did you mean 'holdout'?" in project.run("help", "hold-out").stderr
    assert {*OTHER_NAMES.values()} <= {*topics()} and not {*OTHER_NAMES} & {*topics(), *COMMANDS}
    assert "did you mean 'prompts'?" in project.fail(2, "help", "promts")
    found = project.check("help", "SSH").splitlines()
    assert found[0].startswith("no page is called 'SSH'; goalseek help TOPIC shows one that has the word:")
    assert {line.split()[0] for line in found[2:] if line[2:3].strip()} == pages_with("ssh")
    rows = project.ask("help", "kill")
    assert rows[0]["topic"] and len(rows) == len(pages_with("kill"))
    ended = project.run("help", "xyzzy")
    assert ended.exit_code == 2 and "topics: " in ended.stderr and "prompts" in ended.stderr


def pages_with(word: str) -> set[str]:
    whole = re.compile(rf"\b{word}s?\b", re.IGNORECASE)
    return {path.stem for path in GUIDE.glob("*.md") if whole.search(path.read_text())}


def test_a_page_with_colours_is_laid_out_within_a_hundred_columns(project: Project) -> None:
    shown = project.run("help", "prompts", "--color", "always").stdout
    assert "\x1b[" in shown and "```" not in shown and "| --- |" not in shown
    assert "your own" in strip_colour(shown).lower()
    assert max(map(len, strip_colour(shown).splitlines())) <= 100


def test_the_glossary_is_in_the_order_of_the_alphabet() -> None:
    words = re.findall(r"^\* \*\*(.+?)\*\*: ", (GUIDE / "glossary.md").read_text(), re.MULTILINE)
    assert words == sorted(words) and len(words) == len(set(words)) > 40


def rows_of(page: str, columns: int) -> list[list[str]]:
    """The cells of the rows of the tables with so many columns, without their heads."""
    rows = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| ")]
    return [row for row in rows if len(row) == columns]


def test_the_page_of_reasons_has_each_with_its_outcome_and_its_exit_code() -> None:
    rows = rows_of((GUIDE / "reasons.md").read_text(), 4)
    outcomes = {reason: outcome for outcome, reason, meaning, _ in rows if outcome in REASONS}
    assert outcomes == {reason: outcome for outcome, reasons in REASONS.items() for reason in reasons}
    codes = {reason: code for code, reason, meaning, _ in rows if reason in [*StopReason]}
    signals = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
    interrupted = ", ".join(str(exit_code_of_interrupt(Interrupted(number))) for number in signals)
    assert codes == {reason: str(EXIT_CODES.get(reason, interrupted)) for reason in StopReason}
    assert all(meaning for _, _, meaning, _ in rows)


def test_the_page_of_reasons_has_every_exit_code() -> None:
    text = (GUIDE / "reasons.md").read_text().partition("## Exit codes")[2]
    codes = {int(code) for row in rows_of(text, 2) for code in re.findall(r"\d+", row[0])}
    raised = {value for name, value in vars(errors).items() if name.isupper() and isinstance(value, int)}
    assert codes == {*EXIT_CODES.values(), *raised, 129, 130, 143}
    for code in (os.EX_TEMPFAIL, os.EX_NOPERM, UNJUDGEABLE, STOP_THE_RUN):
        assert f"{code} for" in text
