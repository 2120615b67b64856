"""``goalseek direct``: directions for the agent, from the next iteration on: add, list or drop one."""

import os

from goalseek.cli.options import Options, Parser
from goalseek.errors import GoalseekError
from goalseek.ledger.results_file import load_standing
from goalseek.manifest.loading import make_log_folders
from goalseek.project import config, directions, paths, tries
from goalseek.views.terminal_text import replace_unprintable

_MOST_SAID = 2000


def arguments(parser: Parser) -> None:
    parser.add_argument("text", nargs="?", metavar="TEXT", help="the text to add to the agent's prompt")
    parser.add_argument("--from", dest="first", type=int, metavar="N", help="the first iteration (default: the next)")
    parser.add_argument("--to", dest="last", type=int, metavar="M", help="the last iteration (default: none)")
    parser.add_argument("--list", action="store_true", help="list the directions")
    parser.add_argument("--drop", type=int, metavar="K", help="remove direction K")


def run(options: Options) -> None:
    manifest = paths.manifest_of_running_climb(options.load_manifest())
    config.refuse_missing_home(manifest)
    folder = manifest.directions
    if sum((options.text is not None, options.list, options.drop is not None)) != 1:
        raise GoalseekError("direct: a text, --list or --drop K", 'goalseek direct "prefer fewer parameters"')
    if options.text is None and (options.first is not None or options.last is not None):
        raise GoalseekError("direct: --from and --to go with a text", 'goalseek direct "TEXT" --from 12 --to 20')
    if options.drop is not None:
        directions.drop_direction(folder, options.drop)
        options.print_answer({"dropped": options.drop}, f"direction {options.drop} is dropped")
        return
    if options.list:
        listed = directions.read_directions(folder)
        if options.wants_json:
            options.print_json_lines(listed)
            return
        for direction in listed:
            until = f" to {direction.last}" if direction.last is not None else " on"
            print(f"{direction.number:>4}  from {direction.first}{until}: {replace_unprintable(direction.text)}")
        return
    next_iteration = load_standing(manifest).next_iteration
    first = options.first if options.first is not None else max(next_iteration, 1)
    text = options.text
    if tries.DRIVE_VARIABLE in os.environ:  # an agent may speak, too
        text = f"(said by whoever drives) {text}"
        if len(text) > _MOST_SAID:
            raise GoalseekError(f"in a drive a direction has at most {_MOST_SAID} characters", "say it shorter")
    direction = directions.add_direction(folder, text, first, options.last)
    make_log_folders(manifest)
    line = f"direction {direction.number}, from iteration {direction.first}: {direction.text}"
    options.print_answer(direction, line)
