"""A baseline: HEAD's ruler measured under the incumbent's code, or that of another revision.

A candidate that cannot be finished (its checkpoints are gone, the ruler changed, a new run or baseline was asked for)
is recorded as interrupted first, and stays in the history with a revert commit.
"""

import contextlib
from itertools import pairwise

from msgspec import structs

from goalseek.doctor.diagnose import unseen_file_hint
from goalseek.doctor.project_checks import fixed_seed_note
from goalseek.errors import USAGE, GoalseekError
from goalseek.evaluation.measurements import baseline_error, compose_tree, ruler_of
from goalseek.git.paths import quote_path
from goalseek.git.repository import candidate_message
from goalseek.humanize import abbreviate
from goalseek.ledger.checkpoints import CheckpointName, Checkpoints, chain, read_sealed
from goalseek.loop.invocation import why_not_finish
from goalseek.loop.iteration import Iteration
from goalseek.loop.lanes import open_pool
from goalseek.loop.phases.commit import edits_of
from goalseek.loop.phases.log import log
from goalseek.loop.phases.read_context import gather_context, read_baseline_context
from goalseek.loop.phases.verify import verify_baseline
from goalseek.phase_values import Candidate, Change, Context, Decision, IterationResult, Plan, Verdict
from goalseek.project.config import Config
from goalseek.project.landing import in_flight
from goalseek.project.project import Project
from goalseek.records import IterationRecord
from goalseek.statistics.guards import guard_warning
from goalseek.values import STACK, Attempt, Outcome, Phase, Reason
from goalseek.workspace import hidden_files

CHECKPOINTS_GONE = "the checkpoints of its candidate are gone, so it could not be finished"
RULER_CHANGED = "the verifier has changed, and a new baseline was asked for before it was measured"
NEW_RUN_BEGUN = "a new run began before its verdict"


def measure_baseline(project: Project, source: str | None = None, phase_limit: int | None = None) -> IterationRecord:
    """Pin HEAD's ruler and measure the incumbent's code, or that of revision ``source``, or raise GoalseekError."""
    end_unfinished(project)
    config = note_dropped_files(project, project.config_for_baseline(), source)
    head = project.repository.head()
    ruler = ruler_of(project, config, project.repository.tree_of(head))
    made_from = f"{ruler.digest} {head} {source or ''}"
    with open_pool(project) as pool:
        iteration = Iteration(project, config, pool, None, made_from, phase_limit)
        step = iteration.steps.do
        context = step(Phase.READ_CONTEXT, CheckpointName("context"), Context, read_baseline_context, iteration)
        name = CheckpointName("candidate")
        candidate = step(Phase.COMMIT, name, Candidate, _commit_baseline, iteration, context, source)
        evidence, verdict = verify_baseline(iteration, ruler.digest, candidate)
        decision = step(Phase.DECIDE, CheckpointName("verdict"), Decision, Decision, verdict)
        if not decision.verdict:
            iteration.steps.forget("evidence")
            remedy = unseen_file_hint(project, config.manifest, evidence.verify, candidate.tree, iteration.folder)
            error = baseline_error(decision.verdict, iteration.folder, remedy=remedy)
            if source is None and (hint := _kept_hint(project, decision.verdict.reason)):
                error.hint = f"{hint}; or {error.hint}"
            raise error
        warning = guard_warning(config.manifest.guard, "the baseline", evidence.guards, {})
        values = [run.value for run in evidence.runs]
        is_same = len(values) > 1 and len(set(values)) == 1
        seed_note = fixed_seed_note(project.repository.objects, config, candidate.tree) if is_same else None
        notes = tuple(str(note) for note in (warning, seed_note) if note)
        parts = (None, None, candidate, evidence)
        result = IterationResult(context, decision, *parts, notes=notes, source=resolve_source(project, source))
        return log(iteration, result, ruler)


def _kept_hint(project: Project, reason: str) -> str:
    """A remedy if a kept change may be why a new verifier refuses the incumbent; "" if that is unlikely."""
    incumbent = project.standing.incumbent
    if incumbent is None or incumbent == project.standing.baseline:
        return ""
    if reason == Reason.NO_METRIC and "key metric" in project.differences_from_head().keys:
        return ""
    number = incumbent.iteration
    text = f"the incumbent is of iteration {number}, which the earlier verifier could measure"
    remedy = f"{project.standing.how_to_take_back(number)}, and then goalseek baseline"
    return f"{text}: {remedy}; or goalseek baseline --from HEAD, without the kept changes"


def _commit_baseline(iteration: Iteration, context: Context, source: str | None) -> Candidate:
    """HEAD itself for the first baseline; later a commit on the tip, or the tip if it has that tree already."""
    repository, standing = iteration.project.repository, iteration.standing
    head = repository.head()
    code = resolve_source(iteration.project, source) or (standing.incumbent.commit if standing.incumbent else head)
    tree = compose_tree(iteration.project, iteration.config, repository.tree_of(head), repository.tree_of(code))
    if not standing.tip and tree == repository.tree_of(head):
        return Candidate(head, tree, "")
    if standing.tip and tree == repository.tree_of(standing.tip):
        return Candidate(standing.tip, tree, standing.tip)
    parents = tuple(dict.fromkeys(filter(None, (standing.tip, head, code if source else ""))))
    name = repository.name
    message = candidate_message(f"New baseline of {name}", name, iteration.project.run_id, iteration.number, "")
    return Candidate(repository.objects.write_commit(tree, parents, message, context.moment), tree, parents[0])


def end_unfinished(project: Project, command: str = "goalseek baseline") -> None:
    """Record iterations with a candidate and no record as interrupted, so that ``command`` can begin one.

    Raises GoalseekError if ``goalseek iterate`` can finish them: the ruler is unchanged, no limit is reached, the
    provider can start, and the last invocation did not fail in one.
    """
    flight = project.repository.flight()
    if not flight and not in_flight(project):
        return
    config, why, author = None, RULER_CHANGED, ""
    with contextlib.suppress(GoalseekError):
        config = project.config()
        hidden_files.refuse_changed(config.trees)
        commit = next(iter(flight.values()), ("",))[-1]
        author = project.repository.load_commit(commit).trailers.get("Provider", "") if commit else ""
        why = why_not_finish(project, config, author)
        why = why and f"it could not be finished, and {command} was asked for: {why.splitlines()[0]}"
    if not why:
        refuse_flights(project, command)
        message = f"iteration {project.standing.next_iteration} is not finished: its candidate has no verdict yet"
        option = "" if project.has_provider() else f" --provider {author}"
        raise GoalseekError(message, f"goalseek iterate{option} finishes it; then {command}", USAGE)
    config = config or project.config_for_baseline()
    with open_pool(project) as pool:
        for begun in in_flight(project) or (None,):
            beside = project if pool.is_serial else project.beside(lambda: None)
            iteration = Iteration(beside, config, pool, begun)
            if candidate := _find_unfinished(iteration):
                record = record_abandoned(iteration, candidate, why)
                iteration.lanes.release()
                if begun:
                    beside.watch.on_record(record)
            elif begun:
                pool.flight.remove(begun.iteration)


def refuse_flights(project: Project, command: str) -> None:
    *others, last = ["", *(str(begun.iteration) for begun in in_flight(project))]
    if last:
        which = f"iterations {', '.join(others[1:])} and {last} are" if others[1:] else f"iteration {last} is"
        raise GoalseekError(f"{which} under way", f"goalseek iterate finishes what was begun; then {command}", USAGE)


def refuse_paid_proposal(project: Project, command: str) -> None:
    """Raises GoalseekError if ``command`` would abandon a proposal, other than a stack, that ``iterate`` can finish."""
    standing, folder = project.standing, project.run_folder(project.standing.next_iteration)
    stored = Checkpoints(folder, project.ledger.seal, project.run_id, standing.last_seal)
    names = chain(stored.stored(), f"iteration {standing.next_iteration}")
    is_paid = any(name.answer in ("plan", "change") for name in names)
    is_other = in_flight(project) or _planned_stack(project, standing.next_iteration)
    if is_paid and not is_other and not why_not_finish(project, project.config()):
        message = f"iteration {standing.next_iteration} is not finished, and its proposal is paid for"
        raise GoalseekError(message, f"goalseek iterate finishes it; then {command}", USAGE)


def _planned_stack(project: Project, number: int) -> tuple[int, ...]:
    """The iterations in the stack of the one under way, even if an abandoned run had begun it."""
    plan = read_sealed(project.run_folder(number) / "plan.json", project.ledger.seal)
    return tuple(plan.get("value", {}).get("stacked", ()))


def _find_unfinished(iteration: Iteration) -> Candidate | None:
    repository = iteration.project.repository
    commits = repository.flight().get(iteration.number, ())
    if not commits:
        return None
    newest = repository.load_commit(commits[-1])
    parent = newest.parents[0]
    while parent in commits:  # a repair's commit is on that of the attempt before; a moved one's is on the new tip
        parent = repository.load_commit(parent).parents[0]
    return Candidate(newest.name, newest.tree, parent, commits[:-1])


def find_abandoned(iteration: Iteration) -> Candidate | None:
    """The candidate that a kill left, if its checkpoints are gone."""
    if (candidate := _find_unfinished(iteration)) is None:
        return None
    names = iteration.steps.chain()
    changes = sum(name.answer == "change" and not name.is_rejection for name in names)
    rejections = sum(name.answer == "candidate" and name.is_rejection for name in names)
    return candidate if changes - rejections < len(candidate.commits) else None


def record_abandoned(iteration: Iteration, candidate: Candidate, why: str = "") -> IterationRecord:
    """Revert a candidate and record it as interrupted; without ``why``, find the reason."""
    project, standing, lanes = iteration.project, iteration.standing, iteration.lanes
    repository = project.repository
    again = (iteration.begun, f"left behind {candidate.commit}", iteration.phase_limit)
    iteration = Iteration(project, iteration.config, lanes.pool, *again)
    iteration.lanes = lanes
    if candidate.parent != standing.tip:
        iteration.stand_at(project.ledger.standing_of_tip(candidate.parent))
    first = repository.load_commit(candidate.commits[0])
    if not why:
        why = CHECKPOINTS_GONE if first.trailers.get("Run") == project.run_id else NEW_RUN_BEGUN
    name = CheckpointName("context")
    context = iteration.steps.do(Phase.READ_CONTEXT, name, Context, gather_context, iteration)
    decision = Decision(Verdict(Outcome.SKIPPED, Reason.INTERRUPTED, why), iteration.revert(candidate))
    differences = repository.objects.differences(repository.tree_of(candidate.parent), candidate.tree)
    edits = edits_of({difference.path: difference.after for difference in differences})
    change = Change(first.subject, "", edits, (), 0, 0, provider=first.trailers.get("Provider", ""))
    stack = _planned_stack(project, iteration.number)
    plan = Plan(change.title, "", stacked=stack) if change.provider == STACK else None
    attempts, tip = [], ""
    for commit, following in pairwise(candidate.commits):
        tip = tip or repository.load_commit(commit).parents[0]
        if repository.load_commit(following).parents[0] == commit:
            attempts.append(Attempt(commit, Reason.INTERRUPTED))
            continue
        incumbent = project.ledger.standing_of_tip(tip).incumbent  # it was moved to another tip after this try
        assert incumbent
        attempts.append(Attempt(commit, Reason.MOVED, base_commit_hash=incumbent.commit))
        tip = ""
    return log(iteration, IterationResult(context, decision, plan, change, candidate, None, tuple(attempts)))


def resolve_source(project: Project, source: str | None) -> str | None:
    """The commit of ``--from``; None without one. Raises GoalseekError if there is no such commit."""
    if source is None:
        return None
    commit_hash = project.repository.resolve(source)
    if commit_hash is None:
        raise GoalseekError(f"--from {source}: there is no such commit", "name a commit, branch or tag", USAGE)
    return commit_hash


def note_dropped_files(project: Project, config: Config, source: str | None) -> Config:
    """The configuration, with a note on the incumbent's files that are no longer writable, so taken from HEAD."""
    baseline, incumbent, repository = project.standing.baseline, project.standing.incumbent, project.repository
    if source is not None or baseline is None or incumbent is None:
        return config
    trees = (baseline.tree, repository.tree_of(repository.head()))
    kept, of_head = (set(repository.objects.changed_paths(tree, incumbent.tree)) for tree in trees)
    if not (fixed := sorted(filter(config.scope.is_fixed, kept & of_head))):
        return config
    shown = abbreviate([quote_path(path) for path in fixed])
    note = f"no longer writable, so taken from HEAD: {shown}; goalseek promote applies what was kept in them"
    return structs.replace(config, notes=(*config.notes, note))
