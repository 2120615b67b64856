"""``goalseek audit``: checks the records against git and the seals; ``--rebuild`` restores ``results.jsonl``."""

from goalseek.cli.options import Options, Parser
from goalseek.errors import BAD_FINDING, GoalseekError
from goalseek.evaluation.rerun import rerun
from goalseek.humanize import format_duration, pluralize
from goalseek.ledger.audit import audit
from goalseek.locks import project_lock
from goalseek.project.config import open_repository
from goalseek.project.opening import open_project
from goalseek.values import StopReason
from goalseek.views.terminal_text import one_line


def arguments(parser: Parser) -> None:
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--rebuild", action="store_true", help="write results.jsonl again from git, then check it")
    only.add_argument("--rerun", type=int, metavar="N", help="measure iteration N again, and compare")


def run(options: Options) -> int:
    manifest = options.load_manifest()
    with open_repository(manifest) as repository:
        refs = repository.refs()
        if not (refs.ledger or refs.tip or manifest.results.exists()):
            hint = "climb first: goalseek iterate; in a clone: git fetch origin 'refs/goalseek/*:refs/goalseek/*'"
            raise GoalseekError(f"nothing to audit: there is no {repository.ledger_ref}", hint, StopReason.REPOSITORY)
        if options.rerun is None:
            repository.own.mkdir(parents=True, exist_ok=True)
            with project_lock(repository.own, doing="audit", manifest=manifest.path.resolve()):
                report = audit(manifest, repository, options.rebuild)
    if options.rerun is not None:
        with open_project(manifest, doing="audit --rerun") as project:
            result = rerun(project, options.rerun, options.print_message)
        found = result.found
        seed = "a new seed" if result.seed is None else f"the recorded seed, {result.seed}"
        within = "the noise" if any(number.is_noise for number in found.numbers) else "min_delta and bounds"
        how = {"equal": "the same", "within": f"the same within {within}", "differs": "NOT the same"}[found.how]
        head = f"iteration {result.iteration}, {result.commit[:12]}, with the pinned verifier and {seed}: {how}"
        options.print_answer(result, head, *(f"  {one_line(line)}" for line in found.text))
        if not options.wants_json:
            options.print_message(f"audit: it took {format_duration(result.seconds)}; nothing was recorded")
        return BAD_FINDING if found.how == "differs" else 0
    differences = pluralize(len(report.deviations), "difference")
    summary = f"{pluralize(report.records, 'record')}, {differences}; {report.seals}"
    if options.wants_json:
        options.print_json_lines(report.deviations)
        for line in (*report.notes, summary):
            options.print_message(line)
    else:
        lines = [*report.notes]
        for one in report.deviations:
            text = f"{one.where}: {one.what}: expected {one.expected or 'nothing'}, found {one.found or 'nothing'}"
            legible = (char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
            lines.append("".join(legible))
        print("\n".join([*lines, summary]))
    return BAD_FINDING if report.deviations else 0
