"""A project whose author plays edits and whose reviewer plays words; both keep the prompts that they got."""

import json
import signal
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from project import Project, home

CRITERIA = ["No test is weakened.", "It is short."]
USAGE = {"input_tokens": 70, "cached_tokens": 20, "output_tokens": 10, "cost_usd": 0.25}
REPORT = "printf '%s' '" + json.dumps(USAGE) + '\' > "$GOALSEEK_USAGE"\n'
AUTHOR = """\
mkdir -p "$HOME/authors"
number=$(ls "$HOME/authors" | wc -l)
cat > "$HOME/authors/$number"
edit=$(ls "$HOME/edits" | head -n $((number + 1)) | tail -n 1)
. "$HOME/edits/$edit"
"""
REVIEWER = """\
mkdir -p "$HOME/reviews"
number=$(ls "$HOME/reviews" | wc -l)
cat > "$HOME/reviews/$number"
[ -e "$HOME/during-review" ] && . "$HOME/during-review"
say() { printf '<<<GOALSEEK REVIEW %s\\n' $GOALSEEK_NONCE; printf '%s\\n' "$@"; printf 'GOALSEEK REVIEW %s>>>\\n' $GOALSEEK_NONCE; }
word=$(ls "$HOME/words" | head -n $((number + 1)) | tail -n 1)
. "$HOME/words/$word"
"""
COUNTING = """\
echo "$GOALSEEK_ITERATION" >> "$HOME/measured"
if grep -q fail answer.json; then exit 3; fi
cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"
"""
FILES = {"answer.json": '{"score": 1}\n', "hidden/judge.sh": COUNTING, "other.txt": "kept as it is\n"}


def scores(score: object, title: str = "a score") -> str:
    return f"""printf '{{"score": {score}}}\\n' > answer.json; echo {title}\n"""


def play(folder: str, *scripts: str) -> None:
    """What a program does at its first call, at its second; at all further ones the last."""
    home(folder).mkdir(exist_ok=True)
    for number, script in enumerate(scripts):
        (home(folder) / f"{number:02d}").write_text(script)


def reviewed_project(
    folder: Path,
    *words: str,
    edits: tuple[str, ...] = (scores(2),),
    author: Mapping[str, Any] = MappingProxyType({}),
    review: Mapping[str, Any] = MappingProxyType({}),
    **tables: Any,
) -> Project:
    """The project, whose verifier counts its runs, with a reviewer who says these words. All is in ``folder``."""
    (folder / "author.sh").write_text(AUTHOR)
    (folder / "reviewer.sh").write_text(REVIEWER)
    play("edits", *edits)
    play("words", *words)
    provider = {**command(folder / "author.sh"), **author}
    reviewer = {"provider": command(folder / "reviewer.sh"), "criteria": CRITERIA, **review}
    return Project.make(folder / "repository", FILES, {"provider": provider, "review": reviewer, **tables})


def command(place: Path) -> dict[str, Any]:
    return {"name": "command", "command": ["sh", str(place)]}


def asked(name: str) -> list[str]:
    """The prompts that the author (``authors``) or the reviewer (``reviews``) got, in order."""
    return [place.read_text() for place in sorted(home(name).iterdir())] if home(name).exists() else []


def measured() -> list[str]:
    return home("measured").read_text().split()


def outcome(record: dict[str, Any]) -> tuple[str, str]:
    return record["outcome"], record["reason"]


def tokens(record: dict[str, Any]) -> int:
    return sum(record["usage"][key] for key in ("input_tokens", "cached_tokens", "output_tokens"))


def killed(project: Project, number: signal.Signals) -> None:
    started = project.start_until(home("waiting"), "iterate", "-n", "1")
    started.send_signal(number)
    started.communicate(timeout=30)
