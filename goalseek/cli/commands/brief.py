"""``goalseek brief``: what a prompt would say about the climb, for whoever edits in a checkout."""

from itertools import islice

from goalseek.cli.options import Options, Parser
from goalseek.errors import BAD_FINDING, GoalseekError
from goalseek.ledger.ledger import RECENT
from goalseek.ledger.results_file import History, load_standing
from goalseek.manifest.loading import base_of
from goalseek.phase_values import Ahead
from goalseek.project import config, directions, paths, stop
from goalseek.project.picture import read_picture
from goalseek.proposal.brief import describe_climb, make_brief
from goalseek.proposal.past_tries import Archive, read_history
from goalseek.proposal.prompt import brief_text


def arguments(parser: Parser) -> None:
    pass


def run(options: Options) -> None:
    loaded = paths.manifest_of_running_climb(options.load_manifest_to_look())
    standing, history = load_standing(loaded), History(loaded.results)
    if standing.baseline is None:
        raise GoalseekError("nothing is measured yet", "goalseek baseline measures the start", BAD_FINDING)
    with config.open_repository(loaded) as repository:
        manifest, scope, _ = config.pinned_view(loaded, repository)
        standing = standing.for_run(stop.read_pending_run(repository.own) or standing.run_id)
        recent = list(islice(history.newest_iterations(), RECENT))
        archive = Archive(standing, recent, history, repository, loaded.runs)
        number = standing.next_iteration
        told = directions.read_directions(loaded.directions)
        ahead = tuple(Ahead(one.iteration, one.title) for one in read_picture(loaded.state).under_way)
        texts = tuple(each.text for each in told if each.holds_at(number))
        program = directions.read_program(base_of(loaded, repository.top), manifest)
        more = {"iteration": number, "moment": 0, "program": program, "directions": texts, "commits": ()}
        context = describe_climb(archive, manifest, ahead, **more)
        past = read_history(archive, context.best_iteration, manifest, scope)
        brief = make_brief(context, past, manifest, standing, scope)
        options.print_answer(brief, brief_text(manifest, context, brief).rstrip("\n"))
