"""The picture in ``goalseek/guide/pace.md``: every try of the climb in ``fixtures/pace/results.jsonl``.

python tests/benchmarks/pace_picture.py goalseek/guide/pace.svg
"""

import json
import sys
from html import escape
from pathlib import Path
from typing import Any

LEDGER = Path(__file__).parents[2] / "fixtures/pace/results.jsonl"
LEFT, TOP, WIDTH, HEIGHT = 58, 34, 620, 250
KEPT, REVERTED = "#1a7f4b", "#818c98"


def read_tries(ledger: Path = LEDGER) -> list[dict[str, Any]]:
    """The records of iterations, the baseline's first."""
    records = (json.loads(line) for line in ledger.read_text().splitlines())
    return [record for record in records if record["kind"] == "iteration"]


def draw(tries: list[dict[str, Any]]) -> str:
    tries = [record for record in tries if record["metric"]["value"] is not None]
    highest = max(record["metric"]["value"] for record in tries) * 1.05

    def place(record: dict[str, Any]) -> tuple[float, float]:
        x = LEFT + WIDTH * record["iteration"] / tries[-1]["iteration"]
        return x, TOP + HEIGHT * (1 - record["metric"]["value"] / highest)

    parts = []
    for step in range(0, int(highest) + 1, 4):
        y = TOP + HEIGHT * (1 - step / highest)
        parts.append(f'<path d="M{LEFT} {y:.1f}h{WIDTH}" stroke="#e4e8eb"/>')
        parts.append(f'<text x="{LEFT - 10}" y="{y + 4:.1f}" text-anchor="end">{step}</text>')
    line = ""
    for record in tries:
        x, y = place(record)
        if record["outcome"] in ("kept", "baseline"):
            line += f"H{x:.1f}V{y:.1f}" if line else f"M{x:.1f} {y:.1f}"
    parts.append(f'<path d="{line}H{LEFT + WIDTH}" stroke="{KEPT}"/>')
    for record in tries:
        x, y = place(record)
        colour = KEPT if record["outcome"] in ("kept", "baseline") else REVERTED
        title = escape(f"{record['iteration']}: {record['hypothesis_summary'] or 'baseline'}: {record['why']}")
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour}"><title>{title}</title></circle>')
    parts.append(f'<text x="{LEFT}" y="20" class="title">cost of an iteration, in pieces of work</text>')
    parts.append(f'<text x="{LEFT + WIDTH}" y="20" text-anchor="end">green: kept; grey: reverted</text>')
    parts.append(
        f'<text x="{LEFT + WIDTH}" y="{TOP + HEIGHT + 20}" text-anchor="end">try {tries[-1]["iteration"]}</text>'
    )
    style = "<style>text{font:13px system-ui,sans-serif;fill:#52606d}.title{font-weight:600}path{fill:none}</style>"
    head = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 700 320" width="700" height="320" role="img">'
    title = "<title>Every try of the climb, and the cost of what was kept</title>"
    return "\n".join([head, title, style, '<rect width="700" height="320" fill="#fff"/>', *parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(draw(read_tries()), "utf-8")
