"""The preset of aider. It always exits with 0 and declares no error: without tokens of output there is no answer."""

import re

from msgspec import structs

from goalseek.providers import preset
from goalseek.providers.credentials import api_keys
from goalseek.providers.preset import LITELLM_VARIABLES, Answer, Kind, Part, Preset, Printed, Trouble
from goalseek.values import Usage

_ANSWERS, _EVENTS, _CHAT = "answers.txt", "events.jsonl", "chat.md"
_ANSWER = re.compile(r"^LLM RESPONSE .*\n((?:ASSISTANT .*\n)+)", re.MULTILINE)
_CACHED = re.compile(r"^Tokens: .*?([\d.]+)([kM]?) cache hit", re.MULTILINE)
_SAID = re.compile(r"^> ((?!Tokens: ).*\S)", re.MULTILINE)
_SCALE = {"": 1, "k": 1000, "M": 1_000_000}


def read(printed: Printed) -> Answer:
    """The model's last answer with a block, or all answers; tokens from aider's log of events.

    If the model names a file, aider adds it and asks again, so a call may have several answers. Cached tokens are only
    printed, rounded; the usage of a request without an answer is aider's own guess.
    """
    usage = Usage()
    failure: Kind | None = "undeclared"
    for event in map(preset.json_or_none, printed.read(_EVENTS).splitlines()):
        if preset.inner(event, "event") == "message_send":
            tokens = preset.inner(event, "properties")
            sent, received = (preset.count(tokens, f"{name}_tokens") for name in ("prompt", "completion"))
            failure = None if received else "crashed"
            if received:
                usage = usage.plus(Usage(sent, 0, received, preset.number(tokens, "cost")))
    cached = sum(round(float(digits) * _SCALE[unit]) for digits, unit in _CACHED.findall(printed.stdout))
    cached = min(cached, usage.input_tokens)
    usage = structs.replace(usage, input_tokens=usage.input_tokens - cached, cached_tokens=cached)
    if printed.exit_code:
        return Answer("", usage, trouble=Trouble("undeclared", f"it ended with {printed.exit_code}"))
    if failure:
        *_, turn = printed.read(_CHAT).rpartition("\n####")  # its own text follows the lines of the prompt
        said = _SAID.search(turn)
        return Answer("", usage, trouble=Trouble(failure, said[1] if said else "its model gave no answer"))
    answers = [re.sub(r"^ASSISTANT ", "", text, flags=re.MULTILINE) for text in _ANSWER.findall(printed.read(_ANSWERS))]
    with_block = [text for text in answers if "<<<GOALSEEK " in text]
    return Answer(with_block[-1] if with_block else "\n".join(answers), usage)


PRESET = Preset(
    name="aider",
    program="aider",
    install="pipx install aider-chat",
    tried="0.86.2",
    prompt="file",
    adds_named_files=True,
    parts=(
        Part(("--message-file", "{prompt_file}")),
        Part(("--model", "{model}"), ("model",)),
        Part(("--no-auto-commits", "--no-dirty-commits", "--no-gitignore", "--analytics-disable")),
        Part(("--no-check-update", "--no-show-release-notes", "--no-show-model-warnings")),
        Part(("--no-pretty", "--no-stream", "--no-suggest-shell-commands", "--no-detect-urls")),
        Part(("--chat-history-file", f"{{home}}/{_CHAT}", "--input-history-file", "{home}/input")),
        Part(("--llm-history-file", f"{{home}}/{_ANSWERS}", "--analytics-log", f"{{home}}/{_EVENTS}")),
        Part(("--chat-mode", "ask"), ("plan",)),  # it chooses files by its map of the repository
        Part(("--map-tokens", "0"), ("apply",)),  # the map would leave a cache in the candidate
        Part(("--yes-always",), ("apply", "confined")),
        Part(("{planned}",), ("apply",)),
    ),
    home_files=((_ANSWERS, "", ()), (_EVENTS, "", ()), (_CHAT, "", ())),
    read=read,
    credentials=api_keys(
        "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "DEEPSEEK_API_KEY", "OPENROUTER_API_KEY"
    ),
    variables=LITELLM_VARIABLES,
)
