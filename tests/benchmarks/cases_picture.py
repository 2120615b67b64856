"""The picture in ``goalseek/guide/cases.md``: three rules on five kinds of evaluation sets.

    python tests/benchmarks/cases_picture.py goalseek/guide/cases.svg

The numbers are means of 60 simulated climbs whose truth is known, 24 with 1000 cases, of 100 full runs each.
"""

import sys
from pathlib import Path

# True gain in points, and percent of the keeps that gained nothing: greedy, whole runs, case by case.
SETS = {
    ("50 cases", "right or wrong"): ((7.2, 62), (7.2, 62), (6.5, 42)),
    ("200 cases", "right or wrong"): ((15.5, 54), (15.2, 54), (17.4, 16)),
    ("200 cases", "5% of answers flip"): ((11.9, 56), (8.1, 39), (10.9, 25)),
    ("1000 cases", "right or wrong"): ((20.4, 45), (20.0, 44), (25.0, 8)),
    ("200 cases", "scores from 0 to 1"): ((18.9, 52), (18.6, 52), (21.6, 14)),
}
RULES = {"keep every better number": "#c3cad1", "compare whole runs": "#818c98", "compare case by case": "#1a7f4b"}
PANELS = (("true gain, in points", 28, 165), ("false keeps, in percent", 65, 345))  # title, highest, floor
HEIGHT, BAR, GROUP, LEFT = 105, 32, 126, 58


def draw() -> str:
    parts = []
    for row, (rule, colour) in enumerate(RULES.items()):
        parts.append(f'<rect x="{LEFT + 210 * row}" y="14" width="14" height="14" fill="{colour}"/>')
        parts.append(f'<text x="{LEFT + 20 + 210 * row}" y="26">{rule}</text>')
    for panel, (title, highest, floor) in enumerate(PANELS):
        parts.append(f'<text x="{LEFT}" y="{floor - HEIGHT - 4}" class="title">{title}</text>')
        parts.append(f'<path d="M{LEFT - 8} {floor}H690" stroke="#c3cad1"/>')
        for group, (names, values) in enumerate(SETS.items()):
            for place, (value, colour) in enumerate(zip(values, RULES.values(), strict=True)):
                x, height = LEFT + GROUP * group + (BAR + 3) * place, (HEIGHT - 20) * value[panel] / highest
                parts.append(
                    f'<rect x="{x}" y="{floor - height:.1f}" width="{BAR}" height="{height:.1f}" fill="{colour}"/>'
                )
                label = f'<text x="{x + BAR / 2:g}" y="{floor - height - 4:.1f}" text-anchor="middle">{value[panel]:.{1 - panel}f}</text>'
                parts.append(label)
            middle = LEFT + GROUP * group + (3 * BAR + 6) / 2
            for line, name in enumerate(names):
                parts.append(f'<text x="{middle:g}" y="{floor + 16 + 15 * line}" text-anchor="middle">{name}</text>')
    style = "<style>text{font:13px system-ui,sans-serif;fill:#52606d}.title{font-weight:600}path{fill:none}</style>"
    head = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 700 390" width="700" height="390" role="img">'
    title = "<title>True gain and false keeps of three rules on five evaluation sets</title>"
    return "\n".join([head, title, style, '<rect width="700" height="390" fill="#fff"/>', *parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(draw(), "utf-8")
