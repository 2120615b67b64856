"""``goalseek status``: the state of the climb (best, last, spend, warnings), and what to do next."""

from goalseek.cli.options import Options, Parser
from goalseek.git.location import locate
from goalseek.humanize import at_least, format_distinct, format_dollars, format_duration, format_number
from goalseek.ledger.standing import Standing
from goalseek.project.paths import manifest_of_running_climb
from goalseek.project.picture import count_stages, describe_end
from goalseek.project.status import Overview, read_overview
from goalseek.statistics.rotation import proposer_lines
from goalseek.views.terminal_text import one_line

_TAIL_BYTES = 2**16


def arguments(parser: Parser) -> None:
    parser.add_argument("--watch", action="store_true", help="show it until the climb ends; q or ^C leaves")
    parser.add_argument("--output", action="store_true", help="show what the agent and the verifier print, too")


def run(options: Options) -> None:
    local = options.load_manifest_to_look()
    location = locate(local.folder / local.manifest.project.repo)
    manifest = manifest_of_running_climb(local, location)
    if options.watch:
        from goalseek.cli.watch import follow_climb

        follow_climb(options, manifest)
        return
    summary = read_overview(manifest, location if manifest is local else None)
    printed: list[str] = []
    if options.output:
        from goalseek.cli.watch import read_output
        from goalseek.project.activity import OUTPUT
        from goalseek.views.terminal_text import clean_lines

        tail, _ = read_output(manifest.logs / OUTPUT, -_TAIL_BYTES)
        printed = clean_lines(tail)
    lines = _lines(summary, options)
    if manifest is not local:
        lines.insert(1, f"  at work in {manifest.folder}")
    fields = summary.plain() | ({"output": printed} if options.output else {})
    options.print_answer(fields, *lines, *(f"  | {line}" for line in printed))


def _lines(summary: Overview, options: Options) -> list[str]:
    paint, picture, standing = options.painter(), summary.picture, summary.standing
    lines = [f"{paint(summary.project, 'bold')}: {describe_end(picture.status, picture.stop_reason)}"]
    if picture.phase:
        lines[0] += f", in {picture.phase} since {picture.phase_started_at}"
    if picture.under_way:
        lines[0] += f", {count_stages(picture.under_way)}"
    if summary.silent:
        lines.append(f"  {paint('silent', 'magenta')}     {summary.silent}")
    notes = (*summary.readable, *filter(None, [one_line(summary.unsent)]))
    readable = [f"  {paint('warning', 'magenta')}    {text}" for text in notes]
    if standing.best is None or standing.origin is None:
        return [*lines, "nothing is measured yet", *readable, f"next: {one_line(summary.next)}"]
    better = "higher" if standing.direction == "maximize" else "lower"
    settled = standing.settled
    value, before = (settled.best, settled.baseline) if settled else (standing.best.value, standing.origin.value)
    if standing.best.tree == standing.origin.tree:  # every keep was taken back
        value = before
    best, baseline = format_distinct(value, before, unit=standing.unit)
    gain = format_number(value - before, standing.unit, sign="+")
    lines.append(
        f"  best       {paint(best, 'green')} {standing.metric} ({better} is better), "
        f"iteration {standing.best.iteration}; baseline {baseline}, {gain}"
    )
    if (first := standing.first) and first != standing.origin:
        text = f"{format_number(first.value)}, the baseline of iteration {first.iteration}"
        text += ", before the verifier or the code changed"
        lines.append(f"  first      {text}")
    if settled:
        lines.append(f"  settled    {settled.why}; the two numbers are its medians{settled.left_in_words}")
    if last := standing.last:
        lines.append(f"  last       {last.iteration}: {last.outcome}/{last.reason}, {one_line(last.why)}")
    counts = ", ".join(f"{count} {outcome}" for outcome, count in standing.outcomes.items())
    lines.append(f"  this run   {counts or 'nothing yet'}; {standing.stagnation} since the last kept change")
    lines.append(f"  spend      {format_duration(standing.spend.seconds)}, {_tokens(standing)}")
    lines += [f"  {each:<10} {text}" for each, text in proposer_lines(summary.turn, standing.proposers, standing.unit)]
    if summary.limits:
        lines.append(f"  limits     {'; '.join(summary.limits)}")
    lines += [f"  holdout    look {look.look}: {one_line(look.why)}" for look in standing.holdout]
    if summary.cost:
        lines.append(f"  deciding   {summary.cost}")
    lines += readable
    lines += [f"  {paint('warning', 'magenta')}    {text}" for text in summary.warnings]
    adopts = options.with_manifest("goalseek baseline adopts it")
    lines += [f"  {paint('differs', 'magenta')}    {name}; {adopts}" for name in summary.differs]
    if picture.under_way:
        from goalseek.views.panel import format_under_way

        lines += [f"  {one.iteration:<10} {format_under_way(one)}" for one in picture.under_way]
        lines += [f"  {paint('at once', 'magenta')}    {picture.balance}"] if picture.balance else []
    lines += [f"  {'worker':<10} {one_line(text)}" for text in picture.workers]
    for question in summary.questions:
        from goalseek.views.lines import question_lines

        lines += ["", *question_lines(question)]
    return [*lines, f"next: {one_line(summary.next)}"]


def _tokens(standing: Standing) -> str:
    usage, keeps = standing.spend.usage, standing.outcomes.get("kept", 0)
    text, least = f"{usage.tokens} tokens", at_least(usage)
    if usage.cost_usd is not None:
        text += f", {least}{format_dollars(usage.cost_usd)}{' (estimated)' if usage.estimated else ''}"
    if usage.about_usd is not None:
        text += f", {least}about {format_dollars(usage.about_usd)} by subscription"
    if keeps and standing.spend.tokens:
        text += f"; a kept change {round(standing.spend.tokens / keeps)} tokens"
        if usage.cost_usd is not None:
            text += f", {least}{format_dollars(usage.cost_usd / keeps)}"
    return text
