"""The table of attacks in the guide's page on security, made from what the red team's tests assert by doing.

Every attack declares at which levels it succeeds; the slow tests play it at each level and hold it to that. So what is
counted here is what they found. ``python tests/scenarios/red_team/table.py`` writes it there.
"""

import re
import sys
from collections.abc import Iterable
from pathlib import Path

SCENARIOS = Path(__file__).parents[1]
PAGE = SCENARIOS.parents[1] / "goalseek" / "guide" / "security.md"
if __name__ == "__main__":
    sys.path[:0] = [str(SCENARIOS), str(SCENARIOS.parent / "support")]

import test_red_forging  # noqa: E402 - found beside this folder
import test_red_planting  # noqa: E402
import test_red_team  # noqa: E402
import test_red_team_candidate as candidate  # noqa: E402
from red_team.attacks import LEVELS, Attack  # noqa: E402

BEGIN, END = "<!-- attacks: made by tests/scenarios/red_team/table.py -->\n", "<!-- end of attacks -->\n"
SHOWN = {"none": "`none`", "landlock": "Landlock", "bubblewrap": "bubblewrap"}
OF_CANDIDATES = {
    candidate.FORGED: "forging the number",
    candidate.CLOCK: "forging the number",
    candidate.PLANTED: "planting for a later command",
    candidate.DOWN: "bringing the run down",
}
WRITING = ("editing_", "writing_", "a_signal_")


def groups() -> dict[str, list[Attack]]:
    """Every attack of the red team, by who attacks and what is tried."""
    found: dict[str, list[Attack]] = {}
    for who, attacks in (("the agent", test_red_team.EVERY), ("candidate code", candidate.EVERY)):
        for attack in attacks:
            found.setdefault(f"{who}: {kind_of(attack)}", []).append(attack)
    found["the agent: planting what git obeys"] = list(test_red_planting.GIT_PLANTS)
    found["the agent: planting what pytest or Python runs"] = list(test_red_planting.PROGRAM_PLANTS)
    found["the agent: speaking to the next agent"] = list(test_red_planting.INSTRUCTION_PLANTS)
    found["the agent: names, links and kinds of files"] = list(test_red_planting.NAME_PLANTS)
    found["the agent: forging what is stored"] = list(test_red_forging.EVERY)
    return dict(sorted(found.items()))


def kind_of(attack: Attack) -> str:
    if attack.gain in OF_CANDIDATES:
        return OF_CANDIDATES[attack.gain]
    if "survivor" in attack.name:
        return "outliving its call"
    return "writing" if attack.wrote or attack.name.startswith(WRITING) else "reading"


def table() -> str:
    """The table in Markdown, and what is not stopped where there is a sandbox."""
    rows = ["| who tries what | " + " | ".join(SHOWN.values()) + " |", "|---|---|---|---|"]
    everything = groups()
    for name, attacks in everything.items():
        rows.append(f"| {name} | " + " | ".join(_stopped(attacks, level) for level in LEVELS) + " |")
    together = [attack for attacks in everything.values() for attack in attacks]
    rows.append("| **all** | " + " | ".join(f"**{_stopped(together, level)}**" for level in LEVELS) + " |")
    return "\n".join(rows) + "\n\n" + "".join(map(_open, LEVELS[1:]))


def _stopped(attacks: Iterable[Attack], level: str) -> str:
    attacks = list(attacks)
    return f"{sum(level not in attack.open_at for attack in attacks)} of {len(attacks)}"


def _open(level: str) -> str:
    """What a level does not stop, each with who tries it."""
    told: dict[str, list[str]] = {}
    for name, attacks in groups().items():
        for attack in attacks:
            if level in attack.open_at:
                told.setdefault(name.partition(":")[0], []).append(attack.told)
    if not told:
        return f"* {SHOWN[level]} stops every one of them.\n"
    lists = "; ".join(f"{', '.join(attacks)} (by {who})" for who, attacks in told.items())
    return f"* {SHOWN[level]} does not stop: {lists}.\n"


def page() -> str:
    text = PAGE.read_text()
    assert BEGIN in text and END in text
    return re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: BEGIN + table() + END, text, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(page())
