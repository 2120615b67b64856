"""The checks of sandbox and providers, and the registry of all checks, each with the commands that ask it.

No check runs the verifier. A fault refuses a climb, and fails ``doctor``, in the same words.
"""

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path

from msgspec import Struct, structs

from goalseek.disk import recreate_folder
from goalseek.doctor import diagnose, isolation, project_checks
from goalseek.doctor.project_checks import Subject
from goalseek.errors import GoalseekError, Rejected
from goalseek.evaluation.compare import Revision, refuse_other_ruler
from goalseek.git import ignore, paths
from goalseek.git.objects import Entry
from goalseek.git.repository import Repository
from goalseek.manifest import loading
from goalseek.phase_values import Context
from goalseek.project.config import Config
from goalseek.project.project import Project
from goalseek.proposal.launch import AgentLaunch, forget_calls
from goalseek.proposal.usage import forecast_cost
from goalseek.providers import fallback, registry
from goalseek.providers.coding_agent import AgentProvider
from goalseek.providers.command import CommandProvider
from goalseek.providers.provider import Call, LaunchSpec, Prompts, Provider, WritableFile
from goalseek.providers.skills import outdated_note
from goalseek.sandbox import environment, executables, level
from goalseek.values import Finding, StopReason
from goalseek.workspace.scope import Scope

LIVE_SECONDS = 120.0
VERSION_SECONDS = 30.0
ENDPOINT_SECONDS = 5.0
_VERSION = re.compile(r"\d+\.\d+")
_LIVE_REMEDIES = {
    fallback.Meaning.CLOSED: "wait: a run does so by itself; or correct the network or provider.endpoint",
    fallback.Meaning.REFUSED: "log in, or set another key",
    fallback.Meaning.FAILED: "run it by hand, and read its output",
}
_NOTHING = Context(0, 0, 0, "", "", ())


def subject_of(project: Project, command: str, jobs: int | None = None, source: str | None = None) -> Subject:
    """The incumbent's tree, or HEAD's before the first baseline; for a ``baseline``, HEAD's ruler."""
    incumbent = project.standing.incumbent
    commit = source or (incumbent.commit if incumbent else project.repository.head())
    name = source[:12] if source else "the incumbent" if incumbent else "HEAD"
    ruler_commit = project.repository.head() if command == "baseline" else commit
    is_next = command == "baseline" or incumbent is None
    config = project.config_for_baseline() if is_next else project.config()
    entries = project.repository.files_of(ruler_commit)
    code = entries if commit == ruler_commit else project.repository.files_of(commit)
    return Subject(project, config, command, entries, code, name, commit, jobs)


def check_confinement(subject: Subject) -> Iterator[Finding]:
    project, manifest, confines = subject.project, subject.config.manifest, subject.project.confines
    confines.readable()  # these three raise for a path that cannot be had at this level
    confines.devices()
    confines.cache_paths()
    has_agent = project.has_provider() and project.provider_table().name not in registry.WITHOUT_PROGRAM
    has_network = confines.table.agent_network and (has_agent or manifest.review is not None)
    has_network = has_network or any(command.network for command in manifest.verify)
    has_network = has_network or (manifest.setup is not None and manifest.setup.network)
    project.watch.on_sandbox(confines.level, confines.level.not_enforced(has_network))
    if confines.table.cache and confines.level.name != "none":
        text = f"sandbox.cache: a candidate finds the files of the one before in {', '.join(confines.table.cache)}"
        yield Finding("note", text, "leave sandbox.cache out if builds are quick without it")


def describe_confinement(subject: Subject) -> Iterator[Finding]:
    confines, manifest = subject.project.confines, subject.config.manifest
    name, reasons = confines.level.name, confines.level.reason
    for who, network in (
        ("the agent", confines.table.agent_network),
        ("a candidate's code", any(command.network for command in manifest.verify)),
    ):
        gaps = confines.level.not_enforced(network)
        text = (
            f"no sandbox: {who} runs as you, so" if name == "none" else f"{name} encloses {who}" + ", but" * bool(gaps)
        )
        remedy = "" if name == "bubblewrap" else "; ".join((*reasons, level.installation_hint("bubblewrap")))
        text = "\n".join((text + ":" * bool(gaps), *(f"  {gap}" for gap in gaps)))
        yield Finding("note" if remedy else "good", text, remedy)


def check_allowed_paths(subject: Subject) -> Iterator[Finding]:
    confines, manifest = subject.project.confines, subject.config.manifest
    if confines.level.name == "none":
        return
    verify = environment.program_environment(manifest.env.verify, {}, confines.scratch)
    agent = environment.program_environment(manifest.env.agent, {}, confines.scratch)
    reasons: dict[Path, str] = {}
    for command in manifest.verify:
        reasons |= confines.required_paths([command.run], verify, command.cwd)
    if manifest.setup:
        reasons |= confines.required_paths([manifest.setup.run], verify)
    for words in registry.manifest_commands(subject.project.loaded):
        reasons |= confines.required_paths([words], agent)
    reasons |= dict.fromkeys(confines.shared, "scope.share")
    reasons |= dict.fromkeys(confines.readable(), "sandbox.read")
    reasons |= dict.fromkeys(confines.devices(), "sandbox.devices, for VERIFY only")
    lines = [f"{path} ({why})" for path, why in sorted(reasons.items())]
    text = "besides the trees and the system folders, programs see " + ("nothing" if not lines else "read-only:")
    yield Finding("good", "\n".join((text, *(f"  {line}" for line in lines))))


def check_provider(subject: Subject) -> Iterator[Finding]:
    """The provider can start, can edit a file, and finds its script in its tree; also the cost of a climb."""
    project, incumbent = subject.project, subject.project.standing.incumbent
    files = writable_files(project.repository, subject.config.scope, subject.code)
    if not project.has_provider() and subject.command == "doctor":
        advice = registry.advise_provider(file.read() for file in files)
        remedy = f"{advice}, or your own program (goalseek help providers)"
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
    """Version, login and endpoint of the providers' programs; their answer to a question if ``is_live``."""
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
        text = "no agent searches the web (agent_search = false)"
        if manifest.sandbox.agent_search:
            text = "agents may search the web through their service, outside the sandbox (agent_search = true)"
        yield Finding("good", text, place="sandbox")


def _version(call: Call, provider: AgentProvider) -> Finding:
    program, name = provider.find_program(), provider.name
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
        remedy = "if it needs a folder outside the system folders, name it in sandbox.read"
        return Finding("wrong", f"{name}: {program} does not start: {why}", remedy)
    tested = provider.preset.tried
    numbered = [line for line in lines if _VERSION.search(line)] or lines[-1:]
    version = f"{name}: {next((line for line in numbered if tested and tested in line), numbered[0])[:80]}"
    if not tested:
        return Finding("note", f"{version}, untried: goalseek never ran it", "goalseek doctor --live")
    if tested not in version:
        remedy = "options change between versions: goalseek doctor --live shows whether it answers"
        return Finding("note", f"{version}; tried with {tested}", remedy)
    return Finding("good", f"{version}, as tried")


def _login(provider: CommandProvider) -> Finding:
    login = provider.login()
    if login.billing:
        about = "; its cost is an estimate, and counts for no limit" if provider.is_subscription() else ""
        kind = "an API key" if login.billing == "api" else "a subscription's login"
        named = ", ".join([*login.variables, *(str(file.real) for file in login.files)])
        return Finding("good", f"{provider.name}: {kind}: {named}{about}", place="login")
    names = provider.table.credentials
    known = ", ".join([source.name for source in provider.sources] if names is None else names)
    if not known or (names is None and provider.table.endpoint):
        return Finding("good", f"{provider.name}: no login was found, and none is expected", place="login")
    remedy = f"set one of {known}; if its model needs none: provider.credentials = []"
    return Finding("wrong", f"{provider.name}: no login was found", remedy, "login")


def _endpoint(name: str, address: str) -> Finding:
    import urllib.request  # with ssl and email, which no climb needs

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
    if not isinstance(provider, CommandProvider):
        return Finding("good", f"{provider.name} starts no program", place="live")
    quick_provider = copy(provider)
    quick_provider.timeout = min(provider.timeout or LIVE_SECONDS, LIVE_SECONDS)
    try:
        reply = quick_provider.ask(call)
    except fallback.Failed as failed:
        fallback.interpret(failed, provider, has_answered=False)
        text = f"{provider.name} {fallback.KINDS[failed.kind][0]}: {failed.why}"
        remedy = _LIVE_REMEDIES[failed.meaning]
        if failed.kind == "undeclared" and failed.meaning is fallback.Meaning.CLOSED:
            remedy = "correct its model, its key or its endpoint: a run without any answer ends by this"
        return Finding("note" if failed.kind == "rate_limited" else "wrong", text, remedy, "live")
    except Rejected as rejected:
        return Finding("wrong", f"{provider.name}: {rejected.why}", "run it by hand, and read its output", "live")
    answer = " ".join(reply.output.split())[:60]
    cost = "" if reply.usage.cost_usd is None else f", ${reply.usage.cost_usd:.4f}"
    return Finding("good", f"{provider.name} answers ({reply.usage.tokens} tokens{cost}): {answer}", place="live")


def _make_call(subject: Subject) -> Call:
    project, config = subject.project, subject.config
    tree = project.places.scratch / "tree"
    recreate_folder(tree)
    question = Prompts("Answer with the one word: ready. Do not read, write or run anything.\n")
    call = AgentLaunch(project, config.manifest, tree, "doctor").call(
        phase="plan", context=_NOTHING, history=(), writable=(), prompts=lambda: question, brief={}, nonce="000000"
    )
    call.folder.mkdir(parents=True, exist_ok=True)
    return call


def writable_files(repository: Repository, scope: Scope, entries: Mapping[str, Entry]) -> Iterator[WritableFile]:
    for path, entry in sorted(entries.items()):
        if entry.mode.startswith("100") and scope.kind(path) == "writable":
            yield WritableFile(path, functools.partial(repository.objects.read, entry.blob))


def find_unseen_script(
    project: Project, config: Config, commands: Iterable[Sequence[str]], entries: Mapping[str, Entry]
) -> Finding | None:
    prefix, is_seen = config.scope.prefix, config.scope.seen_by("agent")
    is_shared = ignore.matcher(config.manifest.scope.share)

    def is_there(path: str) -> bool:
        return is_shared(path) or (prefix + path in {**entries, **config.trees.proposer} and is_seen(prefix + path))

    # The program itself is run from the checkout, and scripts that no candidate may change are HEAD's.
    script = executables.missing_script(commands, project.folder, ".", is_there)
    if not script:
        return None
    if prefix + script in entries:
        text = f"{paths.quote_path(script)} is hidden from the agent"
        return Finding("wrong", text, "name another file, or take it out of scope.hidden")
    if prefix + script in project.repository.files_of(project.repository.head()):
        text = f"{paths.quote_path(script)} was committed after the baseline, and is not in the agent's tree"
        return Finding("wrong", text, f"goalseek baseline --from HEAD takes it into the climb; {diagnose.OUTSIDE}")
    text = f"{paths.quote_path(script)} is in your checkout, but not committed, so not in the agent's tree"
    return Finding("wrong", text, f"commit it; {diagnose.OUTSIDE}")


def check_benches(subject: Subject) -> Iterator[Finding]:
    manifest, jobs = subject.config.manifest, subject.jobs
    asked, has_cluster = f"parallel.benches = {manifest.parallel.benches}", manifest.parallel.cluster != "none"
    asked = f"--jobs {jobs}" if jobs else asked
    if not has_cluster and (jobs or manifest.parallel.benches) > 1 and (reason := manifest.one_bench_reason):
        yield Finding("note", f"{asked}, but {reason}")


def check_cluster(subject: Subject) -> Iterator[Finding]:
    project, scope = subject.project, subject.config.manifest.scope
    if cluster := project.cluster:
        none = f"{subject.config.manifest.parallel.cluster}: no worker is there: measurements wait for one"
        yield Finding("good", "; ".join(cluster.lines)) if cluster.lines else Finding("note", none)
        if scope.hidden or scope.hidden_from:
            text = "the hidden files are on the workers while they measure: whoever runs the cluster can read them"
            yield Finding("note", text, "on a cluster of your own that is you")
        if project.confines.level.name == "none":
            text = "no sandbox: a candidate on a worker can take the cluster's key, and run programs with it on every"
            yield Finding("note", f"{text} worker and on this machine", "install bubblewrap here and on the workers")


def check_notification(subject: Subject) -> Iterator[Finding]:
    launch = environment.notify_launch(subject.project.loaded)
    if isinstance(launch, Finding):
        yield launch
    elif command := subject.project.loaded.manifest.notify.command:
        yield Finding("good", f"{command[0]} can be started")


class Check(Struct, frozen=True):
    place: str  # its name in the output of ``doctor``
    find: Callable[[Subject], Iterable[Finding] | None]  # what it raises is a fault, too
    asked_by: tuple[str, ...]


_ADVISING = ("isolation", "notify")  # a climb does not depend on them
_CLIMBING = ("doctor", "iterate", "baseline", "revert")
_FITTING = (*_CLIMBING, "noise", "promote", "settle", "init")

CHECKS = (
    Check("trees", project_checks.check_disk, _FITTING),
    Check("repository", project_checks.check_branch, _FITTING),
    Check("repository", project_checks.check_own_refs, _CLIMBING),
    Check("globs", project_checks.check_globs, (*_FITTING, "compare")),
    Check("globs", project_checks.check_named_files, (*_FITTING, "compare")),
    Check("globs", project_checks.check_log_folders, _FITTING),
    Check("globs", project_checks.check_writable_files, ("doctor", "iterate", "baseline")),
    Check("globs", project_checks.summarize_scope, ("doctor",)),
    Check("number", project_checks.check_timed_command, _FITTING),
    Check("committed", project_checks.check_committed_files, _FITTING),
    Check("left out", project_checks.check_left_out_files, _FITTING),
    Check("pinned", project_checks.check_ruler, _FITTING),
    Check("number", project_checks.check_guards_and_direction, _FITTING),
    Check("environment", project_checks.check_environment, (*_FITTING, "compare")),
    Check("isolation", isolation.check_separation, ("doctor",)),
    Check("isolation", isolation.check_exposure, ("doctor", "iterate", "settle", "init")),
    Check("sandbox", check_confinement, (*_FITTING, "compare")),
    Check("sandbox", describe_confinement, ("doctor",)),
    Check("allowed", check_allowed_paths, ("doctor",)),
    Check("benches", check_benches, ("doctor", "iterate")),
    Check("cluster", check_cluster, ("doctor",)),
    Check("notify", check_notification, ("doctor", "iterate")),
    Check("cheat", lambda subject: subject.unfit_cheats, ("doctor",)),
    Check("trees", project_checks.check_room_for_trees, ("doctor", "iterate")),
    Check("provider", check_provider, ("doctor", "iterate")),
    Check("provider", check_programs, ("doctor",)),
    Check("skills", lambda subject: filter(None, [outdated_note(subject.project.repository.top)]), ("doctor",)),
    Check("trees", project_checks.check_trees, ("doctor",)),
)


def _asked(subject: Subject, places: Sequence[str]) -> Iterator[Check]:
    asked = (check for check in CHECKS if subject.command in check.asked_by)
    return (check for check in asked if not places or check.place in places)


def ask_checks(subject: Subject, places: Sequence[str]) -> Iterator[Finding]:
    """The findings of the subject's command; errors are findings. A place with a fault has no good finding."""
    wrong = set()
    for check in _asked(subject, places):
        if check.find is project_checks.check_trees and "environment" in wrong:  # files would lie on one another
            continue
        try:
            for finding in check.find(subject) or ():
                placed = finding if finding.place else structs.replace(finding, place=check.place)
                if not placed.ok:
                    wrong.add(placed.place)
                if placed.level != "good" or placed.place not in wrong:
                    yield placed
        except GoalseekError as error:
            wrong.add(check.place)
            yield Finding("wrong", error.message, error.hint, check.place)


def check_fit(subject: Subject, places: Sequence[str] = ()) -> None:
    """Note the findings; raises GoalseekError for a fault, except at ``_ADVISING`` places."""
    for check in _asked(subject, places):
        for finding in check.find(subject) or ():
            if not finding.ok and check.place not in _ADVISING:
                raise GoalseekError(finding.text, finding.remedy)
            if finding.level != "good":
                subject.project.watch.on_note(loading.with_manifest_option(str(finding), subject.project.loaded.path))


def check_revisions(project: Project, before: Revision, after: Revision) -> None:
    """Raises GoalseekError if one of the two cannot be measured, or if they have not the same verifier."""
    files = [project.repository.objects.files(side.tree) for side in (before, after)]
    both = {**files[0], **files[1]}  # a file that a writable glob matches may be in either
    for side, entries, places in zip((before, after), files, (("globs", "environment"), ()), strict=True):
        try:
            check_fit(Subject(project, side.config, "compare", entries, both, side.name), places)
        except GoalseekError as error:
            end = error.stop_reason or error.exit_code
            raise GoalseekError(f"{side.name}: {error.message}", error.hint, end) from None
    refuse_other_ruler(project, before.config.scope, before, after)
