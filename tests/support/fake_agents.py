"""Small programs that are called and answer as the real command-line agents do, for tests without a network."""

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from project import answer

PROGRAMS = {
    "claude": "claude", "codex": "codex", "gemini": "gemini", "opencode": "opencode", "aider": "aider",
    "mini-swe-agent": "mini",
}  # fmt: skip
USAGE = {"input": 70, "cached": 20, "output": 10}  # what each of them reports in its own way; aider only roughly
COSTS = ("claude", "opencode", "aider", "mini-swe-agent")  # a quarter of a dollar; the others report none

FAKE = r"""
import json, os, sys, time
from pathlib import Path
NAME, ACTS, LOG, EDIT = json.loads(sys.argv.pop(1))
argv, home, environment = sys.argv[1:], os.environ["HOME"], dict(os.environ)
if NAME == "mini-swe-agent" and argv == ["--help"]:  # it has no option for its version
    print("This is mini-swe-agent version 9.8.7.\nLoading global config from '/home/.env'\n\n Usage: mini [OPTIONS]")
    sys.exit()
if NAME != "mini-swe-agent" and argv == ["--version"]:
    print(f"{NAME} 9.8.7")
    sys.exit()
if NAME == "aider":
    prompt = open(argv[argv.index("--message-file") + 1]).read()
elif NAME == "mini-swe-agent":
    prompt = argv[argv.index("-t") + 1]
else:
    prompt = sys.stdin.read()
phase, nonce = environment["GOALSEEK_PHASE"], environment["GOALSEEK_NONCE"]
for place in (LOG, home + "/calls"):
    try:
        log = open(place, "a+")
        break
    except OSError:  # a sandbox shows it nothing but its HOME
        continue
log.seek(0)
number = len(log.readlines())
files = sorted(os.path.join(at, name)[len(home) + 1:] for at, _, names in os.walk(home) for name in names)
files = [file for file in files if not file.startswith("sessions/")]
with log:
    row = {"name": NAME, "phase": phase, "argv": argv, "environment": environment, "home": files, "prompt": prompt}
    log.write(json.dumps(row) + "\n")
def option(name):
    return argv[argv.index(name) + 1] if name in argv else ""

given = option("--resume") or option("--session") or (argv[-2] if "resume" in argv else "")
session = given or f"ses_{number}_{os.getpid()}"
STORED = Path(home, "sessions", f"{NAME}-{session}")
is_lost = bool(given) and not STORED.exists()
act = "nothing" if is_lost else ACTS.get(str(number)) or ACTS.get(phase) or ACTS.get("always") or "work"
act, _, detail = act.partition(" ")
if act == "do":  # a piece of Python, which names the act that follows
    exec(detail)
if act == "run":  # a piece of Python, then its work
    exec(detail)
    act = "work"
is_short = act == "short"
act = "work" if is_short else act
text = "a higher rate"
if act == "work" and phase == "plan":
    block = f"<<<GOALSEEK PLAN {nonce}\na higher rate\nbecause\nfiles:\nknobs.txt\nGOALSEEK PLAN {nonce}>>>"
    text = f"I looked.\n{block}\n"
elif act == "work":
    exec(EDIT)
if act == "say":
    text = eval(detail)
FAILED = {"auth": 401, "rate": 429, "transient": 503, "half": 503, "spent": 429}.get(act)
if act == "crash":
    print("half an", file=sys.stderr)
    sys.exit(9)

def say(*rows):
    for row in rows:
        print(json.dumps(row))

turns = int(STORED.read_text()) if STORED.exists() else 0  # what the session used, which it tells from then on
turns += FAILED is None or act in ("half", "spent")
if not is_lost:
    STORED.parent.mkdir(exist_ok=True)
    STORED.write_text(str(turns))

if NAME == "claude":
    if is_lost:
        say({"type": "result", "subtype": "error_during_execution", "is_error": True, "session_id": session,
             "total_cost_usd": 0, "usage": {"input_tokens": 0}, "modelUsage": {}})
        sys.exit(1)
    usage = {"input_tokens": 30, "cache_creation_input_tokens": 30, "cache_read_input_tokens": 20, "output_tokens": 10}
    say({"type": "system", "subtype": "init", "session_id": session})
    if FAILED:
        if act in ("rate", "spent"):
            moment = time.time() + float(detail or 0)
            say({"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": moment}})
        usage = {}
    models = {"claude-large": {"inputTokens": 30 * turns, "cacheCreationInputTokens": 30 * turns,
                               "cacheReadInputTokens": 20 * turns, "outputTokens": 8 * turns},
              "claude-small": {"inputTokens": 10 * turns, "outputTokens": 2 * turns}} if turns and not is_short else {}
    if FAILED:
        say({"type": "result", "subtype": "success", "is_error": True, "api_error_status": FAILED, "result": "no",
             "session_id": session, "total_cost_usd": 0.25 * turns, "usage": usage, "modelUsage": models})
        sys.exit(1)
    say({"type": "result", "subtype": "success", "is_error": False, "result": text, "session_id": session,
         "total_cost_usd": 0.25 * turns, "usage": usage, "modelUsage": models})
elif NAME == "codex":
    if is_lost:
        print(f"Error: thread/resume failed: no rollout found for thread id {session}", file=sys.stderr)
        sys.exit(1)
    say({"type": "thread.started", "thread_id": session}, {"type": "turn.started"})
    if FAILED:
        told = f"exceeded retry limit, last status: {FAILED} X" if FAILED == 429 else f"unexpected status {FAILED} X: no"
        say({"type": "error", "message": told}, {"type": "turn.failed", "error": {"message": told}})
        sys.exit(1)
    say({"type": "item.completed", "item": {"type": "agent_message", "text": text}})
    say({"type": "turn.completed", "usage": {
        "input_tokens": 90 * turns, "cached_input_tokens": 20 * turns, "output_tokens": 10 * turns}})
elif NAME == "gemini":
    if is_lost:
        print(f'Error resuming session: Invalid session identifier "{session}".', file=sys.stderr)
        sys.exit(42)
    if FAILED:
        error = {"session_id": session, "error": {"type": "Error", "message": "no", "code": FAILED}}
        print("Attempt 1 failed\n" + json.dumps(error), file=sys.stderr)
        sys.exit(FAILED % 256)
    tokens = {"prompt": 90, "input": 70, "cached": 20, "candidates": 10}
    print(json.dumps({"session_id": session, "response": text, "stats": {"models": {"gemini-large": {"tokens": tokens}}}}, indent=1))
elif NAME == "opencode":
    if is_lost:
        print(f"Session not found: {session}", file=sys.stderr)
        sys.exit(1)
    if FAILED:
        data = {"message": "no", "statusCode": FAILED, "isRetryable": False, "responseHeaders": {"retry-after": "1"}}
        say({"type": "error", "sessionID": session, "error": {"name": "APIError", "data": data}})
        sys.exit(1)
    say({"type": "step_start", "sessionID": session, "part": {}})
    say({"type": "text", "sessionID": session, "part": {"text": text}})
    tokens = {"input": 70, "output": 10, "reasoning": 0, "cache": {"read": 20, "write": 0}}
    say({"type": "step_finish", "sessionID": session, "part": {"tokens": tokens, "cost": 0.25}})
elif NAME == "aider":
    if FAILED:
        print("litellm.SomeError: no")
        sys.exit(0)
    print(f"{text}\nTokens: 90 sent, 20 cache hit, 10 received. Cost: $0.25 message, $0.25 session.")
    sent = {"event": "message_send", "properties": {"prompt_tokens": 90, "completion_tokens": 10, "cost": 0.25}}
    with open(option("--analytics-log"), "a") as events, open(option("--llm-history-file"), "a") as answers:
        events.write(json.dumps(sent) + "\n")
        answers.write("LLM RESPONSE 2026\n" + "".join(f"ASSISTANT {line}\n" for line in text.splitlines()))
else:
    status = {401: "AuthenticationError", 429: "RateLimitError", 503: "InternalServerError"}.get(FAILED, "Submitted")
    usage = {"prompt_tokens": 90, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 20}}
    message = {"role": "assistant", "content": text, "extra": {"response": {"usage": usage}}}
    info = {"exit_status": status, "submission": "", "model_stats": {"instance_cost": 0 if FAILED else 0.25, "api_calls": 1}}
    with open(argv[argv.index("-o") + 1], "w") as file:
        json.dump({"info": info, "messages": [] if FAILED else [message]}, file)
    sys.exit(1 if FAILED else 0)
"""
EDIT = (
    'open("knobs.txt", "w").write(f"RATE = {int(environment[\'GOALSEEK_ITERATION\']) + 1}  # goalseek: int 1..40\\n")'
)

SCORES = {
    "answer.json": answer(1),
    "other.txt": "x\n",
    "hidden/judge.sh": 'cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"\n',
}
SCORING = """
score = 2 * int(environment["GOALSEEK_ITERATION"]) + (phase == "repair")
open("answer.json", "w").write('{"score": %d}' % score)
"""
ADDING = """
score = json.load(open("answer.json"))["score"] + 1
open("answer.json", "w").write('{"score": %d}' % score)
"""
ASKS, APPROVES = (
    f'say "<<<GOALSEEK REVIEW " + nonce + "\\n{word}\\nwhy not\\nGOALSEEK REVIEW " + nonce + ">>>"'
    for word in ("CHANGES_REQUESTED", "APPROVED")
)


def first_line(options: str) -> str:
    """What makes a text a program of this Python, also where the path of that has a space."""
    if " " not in sys.executable:
        return f"#!{sys.executable} {options}"
    return f"""#!/bin/sh\n'''exec' {shlex.quote(sys.executable)} {options} "$0" "$@"\n' '''"""


class Fake:
    """One such program in ``folder``, which should be on PATH. ``calls`` are its calls, where it could write them."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.path = folder / PROGRAMS[name]
        self.log = folder / f"{name}.log"
        folder.mkdir(exist_ok=True)
        self.acts()

    def acts(self, edit: str = EDIT, **acts: str) -> None:
        """What it does, by the number of the call (``_0``), by phase, or ``always``; it works where nothing is said.

        ``work``, ``auth``, ``rate SECONDS``, ``transient``, ``crash``, ``nothing``, ``say EXPRESSION``,
        ``run STATEMENTS`` before its work, or ``do STATEMENTS``, which set ``act`` and ``detail`` to what follows. ``half`` and ``spent SECONDS`` are ``transient`` and ``rate SECONDS`` of one
        that has used as much as for an answer; ``short`` is work of a claude that does not tell what each model used.
        """
        self.log.unlink(missing_ok=True)
        told = json.dumps([self.name, {key.removeprefix("_"): act for key, act in acts.items()}, str(self.log), edit])
        source = f"{first_line('-BS')}\nimport sys\nsys.argv.insert(1, {told!r})\n{FAKE}"
        self.path.write_text(source)
        self.path.chmod(0o755)

    @property
    def calls(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []


Fakes = Callable[..., Fake]
