"""The checks of the providers' programs: version, login, endpoint, and whether they answer."""

from __future__ import annotations

import functools
import re
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy

from goalseek.disk import recreate_folder
from goalseek.doctor.diagnose import OUTSIDE
from goalseek.doctor.project_checks import Subject
from goalseek.errors import GoalseekError, Rejected
from goalseek.git.ignore import matcher
from goalseek.git.objects import Entry
from goalseek.git.paths import quote_path
from goalseek.git.repository import Repository
from goalseek.phase_values import Context
from goalseek.project.config import Config
from goalseek.project.project import Project
from goalseek.proposal.launch import AgentLaunch, forget_calls
from goalseek.proposal.usage import forecast_cost
from goalseek.providers.coding_agent import AgentProvider
from goalseek.providers.command import CommandProvider
from goalseek.providers.outcome import IN_WORDS, Failed, Meaning, interpret
from goalseek.providers.provider import Call, LaunchSpec, Provider, WritableFile
from goalseek.providers.registry import advise_provider
from goalseek.sandbox.executables import missing_script
from goalseek.values import Finding, StopReason
from goalseek.workspace.scope import Scope

LIVE_SECONDS = 120.0
VERSION_SECONDS = 30.0
ENDPOINT_SECONDS = 5.0
_VERSION = re.compile(r"\d+\.\d+")
_QUESTION = "Answer with the one word: ready. Do not read, write or run anything.\n"
_NONCE = "000000"
_LIVE_REMEDIES = {
    Meaning.CLOSED: "wait: a run does so by itself; or correct the network or provider.endpoint",
    Meaning.REFUSED: "log in, or set another key",
    Meaning.FAILED: "run it by hand, and see what it prints",
}
_UNREACHED_REMEDY = "correct its model, its key or its endpoint: a run that it never answered ends by this"
_NOTHING = Context(0, 0, 0, "", 0.0, 0.0, 0.0, 0, False, "", directions=(), files=(), files_total=0, commits=())


def check_provider(subject: Subject) -> Iterator[Finding]:
    """The provider can start, can edit a file, and finds its script in its tree; also what a climb may cost."""
    project, incumbent = subject.project, subject.project.standing.incumbent
    files = writable_files(project.repository, subject.config.scope, subject.code)
    if not project.has_provider() and subject.command == "doctor":
        remedy = f"{advise_provider(file.read() for file in files)}, or a program of yours (goalseek help providers)"
        yield Finding("note", "the manifest names none", remedy)
        return
    chosen = project.provider()
    try:
        note = chosen.look_over(files)
    except GoalseekError as error:
        error.message += f" (in the climb's code, {incumbent.commit[:12]}, not your checkout)" if incumbent else ""
        raise
    yield Finding("good", f"{chosen.editors[0].name} can start" + (f" and {note}" if note else ""))
    if finding := find_unseen_script(project, subject.config, chosen.commands, subject.code):
        raise GoalseekError(finding.text, finding.remedy, StopReason.PROVIDER)
    if forecast := forecast_cost(project.ledger.recent, subject.config.manifest.limits):
        yield Finding("good", forecast)


def check_programs(subject: Subject) -> Iterator[Finding]:
    """The providers' programs: version, login and endpoint; where that is allowed, whether they answer."""
    project, manifest = subject.project, subject.config.manifest
    members = project.provider().members if project.has_provider() else ()
    for provider in members:
        if isinstance(provider, AgentProvider):
            yield _version(_make_call(subject), provider)
            yield _login(provider)
            address = provider.table.endpoint or provider.preset.address
            if address and manifest.sandbox.agent_network:
                yield _endpoint(provider.name, address)
        elif isinstance(provider, CommandProvider) and provider.table.credentials:
            yield _login(provider)
        if subject.is_live:
            yield _live(_make_call(subject), provider)
            forget_calls(project.places)
    if any(isinstance(provider, AgentProvider) for provider in members):
        is_on, text = manifest.sandbox.agent_search, "no agent searches the web"
        if is_on:
            text = "agents may search the web, at their service and beyond the sandbox"
        yield Finding("good", f"{text} (agent_search = {str(is_on).lower()})", place="sandbox")


def _version(call: Call, provider: AgentProvider) -> Finding:
    """Whether the program starts in its sandbox, and which version it is."""
    program, name = provider.program(), provider.name
    assert program
    words = (program, *provider.words[1:])
    spec = LaunchSpec((*words, *provider.preset.version), named=words, timeout=VERSION_SECONDS, has_input=False)
    try:
        result = call.host.start(call, spec)
    except (GoalseekError, OSError) as error:
        return Finding("wrong", f"{name}: {program} cannot be started: {error}", "see: sandbox, allowed")
    printed = (result.stdout or result.stderr).decode("utf-8", "replace")
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    if result.exit_code != 0 or not lines:
        why = lines[-1][:200] if lines else f"it ended with {result.exit_code}"
        remedy = "what it needs beside the system's own folders may be missing: sandbox.read"
        return Finding("wrong", f"{name}: {program} does not start: {why}", remedy)
    tested = provider.preset.tried
    numbered = [line for line in lines if _VERSION.search(line)] or lines[-1:]
    version = f"{name}: {next((line for line in numbered if tested and tested in line), numbered[0])[:80]}"
    if not tested:
        return Finding("note", f"{version}, untried: goalseek never ran it", "goalseek doctor --live")
    if tested not in version:
        remedy = "options move between versions: goalseek doctor --live shows whether it answers"
        return Finding("note", f"{version}; tried with {tested}", remedy)
    return Finding("good", f"{version}, as tried")


def _login(provider: CommandProvider) -> Finding:
    login = provider.login()
    if login.billing:
        about = "; its cost is shown as about, and is no limit" if provider.is_subscription() else ""
        return Finding("good", f"{provider.name}: {login.in_words()}{about}", place="login")
    names = provider.table.credentials
    known = ", ".join([source.name for source in provider.sources] if names is None else names)
    if not known or (names is None and provider.table.endpoint):
        return Finding("good", f"{provider.name}: no login was found, and none is expected", place="login")
    remedy = f"one of {known}; where its model needs none: provider.credentials = []"
    return Finding("wrong", f"{provider.name}: no login was found", remedy, "login")


def _endpoint(name: str, address: str) -> Finding:
    request = urllib.request.Request(address, method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=ENDPOINT_SECONDS):
            pass
    except urllib.error.HTTPError as error:  # it answers: without a key, and to a question that nobody asks
        error.close()
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", error)
        remedy = "its agent would go on trying: correct the network, or provider.endpoint"
        return Finding("wrong", f"{name}: {address} does not answer: {why}", remedy, "endpoint")
    return Finding("good", f"{name}: {address} answers", place="endpoint")


def _live(call: Call, provider: Provider) -> Finding:
    """One tiny call, in an empty folder."""
    if not isinstance(provider, CommandProvider):
        return Finding("good", f"{provider.name} starts no program", place="live")
    quick_provider = copy(provider)
    quick_provider.timeout = min(provider.timeout or LIVE_SECONDS, LIVE_SECONDS)
    try:
        reply = quick_provider.ask(call)
    except Failed as failed:
        interpret(failed, provider, has_answered=False)
        text = f"{provider.name} {IN_WORDS[failed.kind]}: {failed.why}"
        is_unreached = failed.kind == "undeclared" and failed.meaning is Meaning.CLOSED
        remedy = _UNREACHED_REMEDY if is_unreached else _LIVE_REMEDIES[failed.meaning]
        return Finding("note" if failed.kind == "rate_limited" else "wrong", text, remedy, "live")
    except Rejected as rejected:
        return Finding("wrong", f"{provider.name}: {rejected.why}", "see what it printed: run it by hand", "live")
    answer = " ".join(reply.output.split())[:60]
    cost = "" if reply.usage.cost_usd is None else f", ${reply.usage.cost_usd:.4f}"
    return Finding("good", f"{provider.name} answers ({reply.usage.tokens} tokens{cost}): {answer}", place="live")


def _make_call(subject: Subject) -> Call:
    project, config = subject.project, subject.config
    tree = project.places.scratch / "tree"
    recreate_folder(tree)
    call = AgentLaunch(project, config.manifest, tree, "doctor").call(
        phase="plan", context=_NOTHING, history=(), writable=(), prompt=_QUESTION, brief={}, nonce=_NONCE
    )
    call.folder.mkdir(parents=True, exist_ok=True)
    return call


def writable_files(repository: Repository, scope: Scope, entries: Mapping[str, Entry]) -> Iterator[WritableFile]:
    """The files of a tree that a provider may edit."""
    for path, entry in sorted(entries.items()):
        if entry.mode.startswith("100") and scope.kind(path) == "writable":
            yield WritableFile(path, functools.partial(repository.objects.read, entry.blob))


def find_unseen_script(
    project: Project, config: Config, commands: Iterable[Sequence[str]], entries: Mapping[str, Entry]
) -> Finding | None:
    """A script of an agent's command that its tree lacks."""
    prefix, is_seen = config.scope.prefix, config.scope.seen_by("agent")
    is_shared = matcher(config.manifest.scope.share)

    def is_there(path: str) -> bool:
        return is_shared(path) or (prefix + path in {**entries, **config.trees.proposer} and is_seen(prefix + path))

    # The program itself is run from the checkout, and scripts that no candidate may change are HEAD's.
    script = missing_script(commands, project.folder, ".", is_there)
    if not script:
        return None
    if prefix + script in entries:
        text = f"{quote_path(script)} is hidden from the agent"
        return Finding("wrong", text, "name another file, or take it out of scope.hidden")
    if prefix + script in project.repository.files_of(project.repository.head()):
        text = f"{quote_path(script)} was committed after the baseline, and the agent's tree is that of the climb"
        return Finding("wrong", text, f"goalseek baseline --from HEAD takes it into the climb; {OUTSIDE}")
    text = f"{quote_path(script)} is in your checkout, but not committed where the agent's tree is taken from"
    return Finding("wrong", text, f"commit it; {OUTSIDE}")
