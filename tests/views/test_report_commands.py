"""What the Markdown report says to do next: commands in code, words as words."""

from __future__ import annotations

import pytest

from goalseek.views.report.markdown import code_span, mark_commands


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "goalseek iterate goes on; goalseek promote takes the kept changes home",
            "`goalseek iterate` goes on; `goalseek promote` takes the kept changes home",
        ),
        (
            "limits.iterations = 6 is reached, 6 spent; raise it in the manifest, or begin with: goalseek iterate --new",
            "`limits.iterations` = 6 is reached, 6 spent; raise it in the manifest, "
            "or begin with: `goalseek iterate --new`",
        ),
        (
            'see: goalseek log --last 20; say what to try: goalseek direct "..."; then: goalseek iterate --new',
            'see: `goalseek log --last 20`; say what to try: `goalseek direct "..."`; then: `goalseek iterate --new`',
        ),
        ("see: goalseek log --outcome reverted; then", "see: `goalseek log --outcome reverted`; then"),
        ("goalseek approve 5, or goalseek decline 5", "`goalseek approve 5`, or `goalseek decline 5`"),
        ("ask @somebody <b>for</b> [it](x) *now*", "ask `@somebody` `<b>for</b>` `[it](x)` `*now*`"),
        ("www.example.com; a`b", "`www.example.com`; `` a`b ``"),
    ],
)
def test_what_is_typed_is_code_and_nothing_else_comes_to_life(text: str, told: str) -> None:
    assert mark_commands(text, code_span) == told
