"""The provider of every preset: builds the command line, reads the answer, classifies failures, resumes sessions."""

import re
from pathlib import Path

from msgspec import structs

from goalseek.errors import GoalseekError
from goalseek.humanize import clean_title
from goalseek.manifest.tables import ProviderTable
from goalseek.phase_values import Plan, Session
from goalseek.providers.answer import find_plan, find_tried, require_plan
from goalseek.providers.command import PAST_LIMIT, CommandProvider
from goalseek.providers.fallback import Failed, SessionGone
from goalseek.providers.preset import Answer, Preset, Printed, Trouble
from goalseek.providers.provider import Call, LaunchSpec, Reply
from goalseek.sandbox.supervisor import shorten
from goalseek.values import StopReason, Usage

_UNDONE = "An earlier turn of this task was cut off, and its edits were undone.\n"
_MOST_UNPLANNED = 20  # files in an agent's prompt if its plan names none
_ARGUMENT_BYTES = 128 * 1024 - 1  # of one argument, on Linux
_IN_PIECES = "in pieces if it is long, and do what it says."
_LEAST_DOLLARS = 1e-6  # as it is written; 0 would be no limit
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,199}")  # it becomes a word of a command line, and no option
_ROUNDING = 1 - 1e-9  # sums of dollars differ by rounding


class AgentProvider(CommandProvider):
    reports_usage = True  # every preset reads the tokens of a call

    def __init__(self, table: ProviderTable, folder: Path, preset: Preset) -> None:
        super().__init__(table, folder)
        self.preset = preset
        self.name, self.needs_sandbox, self.sources = preset.name, preset.needs_sandbox, preset.credentials
        self.words = table.command or (preset.program,)

    @property
    def has_login(self) -> bool:  # an endpoint, or ``credentials = []``, says that none is needed
        return bool(self.table.endpoint or self.table.credentials == () or self.login().billing)

    def is_subscription(self) -> bool:
        return super().is_subscription() or (self.table.billing == "auto" and self.login().billing == "subscription")

    def check(self) -> None:
        if self.find_program() is None:
            message = f"provider {self.name}: there is no program {self.words[0]!r}"
            hint = f"{self.preset.install}; or name it in the manifest: provider.command"
            raise GoalseekError(message, hint, StopReason.PROVIDER)

    def command_in_sandbox(self) -> tuple[list[str], dict[str, str]]:
        """The command line for a person's own use in a sandbox, and the variables because of that or the endpoint."""
        login, endpoint = self.login(), (self.table.endpoint or "").rstrip("/")
        key = login.variables[0] if login.variables and login.billing == "api" else ""
        possible = {"confined": True, "model": self.model, "endpoint": endpoint, "key": key}
        facts = {fact for fact, holds in possible.items() if holds}
        values = {"{model}": self.model, "{endpoint}": endpoint, "{key}": key}
        words = [word for part in self.preset.interactive if facts.issuperset(part.when) for word in part.words]
        chosen = [(name, text) for name, text, when in self.preset.variables if when and facts.issuperset(when)]
        variables = {name: _fill(text, values) for name, text in chosen}
        return [*self.words, *(_fill(word, values) for word in words)], variables

    def plan(self, call: Call) -> Reply:
        """Ask for a plan, in the session of its last answer, without a way to edit if the agent has such a mode."""
        return require_plan(self._ask_in_session(call, bool(call.prompts().resumed())), call.nonce)

    def apply(self, call: Call, plan: Plan) -> Reply:
        """Let the agent edit; a repair, or its own plan, resumes an earlier call's session in this HOME."""
        may_resume = call.phase == "repair" or plan.provider in ("", self.name)
        reply = self._ask_in_session(call, may_resume, plan.files)
        is_chatter = not (reply.text or reply.files)  # without a block its first line is whatever it printed first
        return structs.replace(reply, title=plan.title) if plan.title and is_chatter else reply

    def _ask_in_session(self, call: Call, may_resume: bool, planned: tuple[str, ...] = ()) -> Reply:
        """Resumes the last session of this HOME if it ``may_resume``, or the call was cut off."""
        go_on = call.host.resume_prompt()
        session = call.host.session(self.name, self.model) if may_resume or go_on else None
        try:
            return self.ask(call, session, planned)
        except SessionGone as gone:
            why = f"{self.name} cannot continue its session ({gone.why}), and begins a new one"
            call.host.on_retry(why, gone.usage)
            return self.ask(call, planned=planned, ending=f"\n{_UNDONE}" if go_on else "")

    def ask(self, call: Call, session: Session | None = None, planned: tuple[str, ...] = (), ending: str = "") -> Reply:
        """One call, in ``session`` if given, to edit ``planned`` files. Raises Failed without an answer."""
        login = self.login()
        prompt = (session and (call.host.resume_prompt() or call.prompts().resumed())) or call.prompt + ending
        if self.preset.adds_named_files and (file_list := call.prompts().file_list):
            prompt = prompt.replace(file_list, "They are not listed here.")
        prompts = structs.replace(call.prompts(), fresh=prompt)
        call = structs.replace(call, prompts=lambda: prompts)
        dollars_left = None if self.is_subscription() else call.host.dollars_left()  # None without a limit
        facts = {
            "apply" if call.phase in ("apply", "repair") else "plan",
            "reviewer" if call.phase == "review" else "author",
            "confined" if call.confined else "unconfined",
            "session" if session else "fresh",
            "search" if call.search else "no_search",
            *(["model"] if self.model else []),
            *(["endpoint"] if self.table.endpoint else []),
            *(["budget"] if dollars_left is not None else []),
            *(["key" if login.billing == "api" and login.variables else "login"] if login.billing else []),
        }
        is_short = len(prompt.encode("utf-8", "replace")) <= _ARGUMENT_BYTES
        values = {
            "{model}": self.model,
            "{endpoint}": (self.table.endpoint or "").rstrip("/"),
            "{session}": session.name if session else "",
            "{key}": login.variables[0] if login.variables else "",
            "{prompt}": prompt if is_short else f"Read the whole file {call.prompt_file}, {_IN_PIECES}",
            "{prompt_file}": str(call.prompt_file),
            "{home}": str(call.home_at),
            "{budget}": f"{0.0 if dollars_left is None else max(dollars_left, _LEAST_DOLLARS):.6f}",
        }
        named = tuple(path for path in call.writable if path in planned)
        files = {"{files}": call.writable, "{planned}": named or call.writable[:_MOST_UNPLANNED]}
        words = [word for part in self.preset.parts if facts.issuperset(part.when) for word in part.words]
        arguments = [each for word in words for each in (files[word] if word in files else (_fill(word, values),))]
        variables = {name: _fill(text, values) for name, text, when in self.preset.variables if facts.issuperset(when)}
        if self.preset.with_endpoint and self.table.endpoint:
            variables.update(self.preset.with_endpoint(self.table.endpoint, self.model))
        spec = LaunchSpec(
            tuple(arguments),
            variables,
            login=login,
            home=self.name,
            home_files={path: text for path, text, when in self.preset.home_files if facts.issuperset(when)},
            has_input=self.preset.prompt == "stdin",
            kept_bytes=self.preset.kept_bytes,
            waits=self.preset.waits,
        )
        result, stdout, stderr = self.run(call, spec)
        printed = Printed(result.exit_code or 0, stdout, stderr, lambda path: call.host.read_home(self.name, path))
        answer = self._read(printed)
        usage = usage_of_call(answer, session)
        output = shorten(stdout + stderr)
        if result.timed_out:
            raise Failed("timeout", PAST_LIMIT.format(result.seconds), output, usage)
        if result.exit_code is None:  # it was ended in such a wait
            answer = structs.replace(answer, trouble=Trouble("rate_limited", "it waits for its model in silence"))
        if next_session := session_after(answer, session, self.model):
            call.host.save_session(next_session)
        if trouble := answer.trouble:
            may_be_gone = trouble.kind in ("crashed", "transient", "undeclared") and not answer.session
            is_gone = session and may_be_gone and not (answer.usage.tokens or answer.usage.cost_usd)
            why = f"{self.name}: {trouble.why}"
            raise (SessionGone if is_gone else Failed)(trouble.kind, why, output, usage, trouble.reset)
        plan = find_plan(answer.text, call.nonce)
        if plan is None:  # a plan must be in a block; the first printed line may name a change
            lines = [line for line in answer.text.splitlines() if line.strip()]
            plan = Reply(clean_title(lines[0]) if lines and call.phase != "plan" else "")
        tried = find_tried(answer.text)
        return structs.replace(plan, output=answer.text or output, usage=usage, answered_by=answer.model, tried=tried)

    def partial_reply(self, printed: Printed, reported: Usage, session: Session | None) -> Reply:
        answer = self._read(printed)
        is_other = session is not None and answer.session not in ("", session.name)
        return Reply("", usage=usage_of_call(answer, None if is_other else session), answered_by=answer.model)

    def _read(self, printed: Printed) -> Answer:
        try:
            return self.preset.read(printed)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            return Answer(trouble=Trouble("crashed", f"its answer cannot be read ({type(error).__name__}: {error})"))


def _fill(word: str, values: dict[str, str]) -> str:
    for placeholder, value in values.items():
        if placeholder in word:
            return word.replace(placeholder, value)
    return word


def usage_of_call(answer: Answer, session: Session | None) -> Usage:
    """The usage of one call: totals of a whole session less the earlier totals."""
    usage, previous = answer.usage, session.told if session else Usage()
    totals = {name: getattr(usage, name) for name in answer.whole_session if getattr(usage, name) is not None}
    earlier = {name: getattr(previous, name) or 0 for name in totals}
    # A total that is smaller than the earlier one was reset, and is of this call alone.
    if all(totals[name] >= earlier[name] * _ROUNDING for name in totals):
        usage = structs.replace(usage, **{name: max(totals[name] - earlier[name], 0) for name in totals})
    # A cost of 0 for some tokens is none: the agent has no price for that model.
    return structs.replace(usage, cost_usd=None) if usage.tokens and usage.cost_usd == 0 else usage


def session_after(answer: Answer, session: Session | None, model: str) -> Session | None:
    """The session that the next call can resume; None if it may not exist."""
    is_same = session is not None and session.name == answer.session
    is_name = isinstance(answer.session, str) and _NAME.fullmatch(answer.session)
    if not is_name or (answer.trouble and not is_same and not answer.usage.tokens):
        return None  # a call that failed in a new session before its model answered may have left none
    previous = session.told if session else Usage()
    totals = {name: getattr(answer.usage, name) for name in answer.whole_session}
    return Session(answer.session, model, structs.replace(previous, **totals))
