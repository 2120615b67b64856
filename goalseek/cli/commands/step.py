"""``goalseek step``: one phase of an iteration, then stop and name the next."""

from goalseek.cli.options import Options, Parser, add_proposer_options
from goalseek.doctor.checks import check_fit, subject_of
from goalseek.errors import GoalseekError, LimitReached, Paused
from goalseek.git.packing import pack_when_due
from goalseek.loop import baseline, invocation, loop
from goalseek.loop.iteration import Iteration
from goalseek.loop.lanes import open_pool
from goalseek.project.opening import open_project, provider_from_options
from goalseek.values import Phase, StopReason
from goalseek.views.lines import AskingWatch, SandboxWatch


def arguments(parser: Parser) -> None:
    add_proposer_options(parser)


def run(options: Options) -> None:
    manifest = options.load_manifest()
    kind = SandboxWatch if options.wants_json else AskingWatch
    watch = kind(options.color, options.quiet or options.wants_json)
    override = provider_from_options(manifest, options.provider, options.model)
    with open_project(manifest, watch, override, doing="step") as project, invocation.recording_end(project):
        check_fit(subject_of(project, "iterate"))
        baseline.refuse_flights(project, "goalseek step")
        pack_when_due(project.repository, project.standing.seq, project.watch.on_note)
        try:
            if project.standing.baseline is None:
                record = baseline.measure_baseline(project, phase_limit=1)
            else:
                config = project.config()
                if stop := invocation.limit_stop(project, config):
                    raise LimitReached(stop)
                with open_pool(project) as pool:
                    record = loop.run_iteration(Iteration(project, config, pool, phase_limit=1))
            done, following = f"{Phase.LOG} (iteration {record.iteration}: {record.outcome})", str(Phase.READ_CONTEXT)
        except LimitReached as reached:
            end = reached.stop
            raise GoalseekError(end.why, end.next, StopReason(end.reason)) from None
        except Paused as paused:
            done, following = project.activity.last_phase, paused.next_phase
    options.print_answer({"done": done, "next": following}, f"done: {done}; next: {following}")
