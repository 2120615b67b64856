"""The preset of aider. It prints text only, and exits 0 always: without a count of tokens there is no answer."""

from __future__ import annotations

import re

from goalseek.providers.credentials import api_keys
from goalseek.providers.preset import Answer, Part, Preset, Printed, Trouble
from goalseek.values import Usage

_NUMBER = r"([\d.,]+)([kM]?)"
_TOKENS = re.compile(rf"^Tokens: {_NUMBER} sent(.*?), {_NUMBER} received\.(?: Cost: \$([\d.]+) message)?", re.MULTILINE)
_CACHED = re.compile(rf"{_NUMBER} cache hit")
_SCALE = {"": 1, "k": 1000, "M": 1_000_000}


def read(printed: Printed) -> Answer:
    """The text, and the sum of its lines of tokens, whose numbers aider rounds (``1.2k``)."""
    usage, answers = Usage(), 0
    for sent, scale, between, received, unit, cost in _TOKENS.findall(printed.stdout):
        hit = _CACHED.search(between)
        cached = _number(hit[1], hit[2]) if hit else 0
        fresh = max(_number(sent, scale) - cached, 0)
        usage = usage.plus(Usage(fresh, cached, _number(received, unit), float(cost) if cost else None))
        answers += 1
    if printed.exit_code or not answers:
        why = f"it ended with {printed.exit_code}" if printed.exit_code else "no answer of its model is in what it said"
        return Answer("", usage, trouble=Trouble("crashed", why))
    return Answer(printed.stdout, usage, is_mixed=True)


def _number(text: str, scale: str) -> int:
    return round(float(text.replace(",", "")) * _SCALE[scale])


PRESET = Preset(
    name="aider",
    program="aider",
    install="pipx install aider-chat",
    tried="0.86.2",
    prompt="file",
    parts=(
        Part(("--message-file", "{prompt_file}")),
        Part(("--model", "{model}"), ("model",)),
        Part(("--no-auto-commits", "--no-dirty-commits", "--no-gitignore", "--analytics-disable")),
        Part(("--no-check-update", "--no-show-release-notes", "--no-show-model-warnings")),
        Part(("--no-pretty", "--no-stream", "--map-tokens", "0", "--no-suggest-shell-commands", "--no-detect-urls")),
        Part(("--chat-history-file", "{home}/chat.md", "--input-history-file", "{home}/input")),
        Part(("--chat-mode", "ask"), ("plan",)),
        Part(("--yes-always",), ("apply", "confined")),
        Part(("{files}",)),
    ),
    read=read,
    credentials=api_keys(
        "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "DEEPSEEK_API_KEY", "OPENROUTER_API_KEY"
    ),
    variables=(
        ("OPENAI_API_BASE", "{endpoint}/v1", ("endpoint",)),
        ("ANTHROPIC_BASE_URL", "{endpoint}", ("endpoint",)),
    ),
)
