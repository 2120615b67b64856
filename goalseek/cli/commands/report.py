"""``goalseek report``: the report as an HTML page, or as Markdown for a pull request."""

import sys
from pathlib import Path

from goalseek.cli.options import Options, Parser, refuse
from goalseek.cli.streams import print_bytes
from goalseek.disk import open_export, refuse_records
from goalseek.errors import GoalseekError
from goalseek.views.report.claim import claim_of, format_kept
from goalseek.views.report.pages import render_markdown, render_page
from goalseek.views.report.source import ReportSource, copy_source

_FORMATS = {".html": "html", ".htm": "html", ".md": "md", ".markdown": "md"}


def arguments(parser: Parser) -> None:
    results = "a results.jsonl from elsewhere, or its folder (default: this project's)"
    parser.add_argument("results", nargs="?", metavar="RESULTS", help=results)
    where = "FILE.html or FILE.md (for a pull request); - is stdout (default: report.html beside the records)"
    parser.add_argument("-o", dest="file", metavar="FILE", help=where)
    parser.add_argument(
        "--format", choices=("html", "md"), help="the format, if FILE does not end in .html or .md (default: html)"
    )
    parser.add_argument("--settle", action="store_true", help="run `goalseek settle` first")
    parser.add_argument("--serve", action="store_true", help="serve it as a live page on this machine, until ^C")
    parser.add_argument("--port", type=int, metavar="P", help="the port of --serve (default: any that is free)")


def run(options: Options) -> None:
    options.refuse_two_outputs("-o", options.file, "the report")
    is_copy = options.settle and options.results is not None
    is_unserved = options.port is not None and not options.serve
    refuse(
        (is_copy, "--settle measures: it needs the repository, not a copy of its records", "leave one out"),
        (options.serve and bool(options.file or options.format), "--serve writes no file", "leave -o and --format out"),
        (is_unserved, "--port is for --serve", "goalseek report --serve --port 8000"),
    )
    if options.settle:
        from goalseek.cli.commands import settle

        settle.run(options, options.line_view())
    if options.results is None:
        loaded = options.load_manifest()
        source = ReportSource(loaded.results, loaded.runs, loaded)
    else:
        source = copy_source(options.start_folder() / options.results)
    if options.serve:
        from goalseek.views.report.server import PageServer

        with PageServer(source, options.port or 0) as server:
            try:
                options.print_answer({"url": server.url}, server.url)
                sys.stdout.flush()
                options.print_message("open it in a browser on this machine; the page changes nothing; ^C ends it")
                server.serve_forever(poll_interval=0.2)
            except KeyboardInterrupt:  # its ordinary end
                options.print_message("ended")
        return
    kind = options.format or "html"
    if not options.format and options.file not in (None, "-"):
        kind = _FORMATS.get(Path(options.file).suffix.lower())
        if kind is None:
            message = f"-o {options.file}: unknown kind of file"
            raise GoalseekError(message, "end it in .html or .md, or give --format")
    if options.file == "-":
        print_bytes(render_report(source, kind))
        return
    path = Path(options.file) if options.file else source.results.with_name(f"report.{kind}")
    if not options.file and not source.results.exists():
        hint = source.state().next or "goalseek iterate makes the first record"
        raise GoalseekError("there are no records yet", hint)
    refuse_records(path, source.results)
    with open_export(path) as file:
        content = render_report(source, kind)
        file.write(content)
    if not options.wants_json:
        options.print_message(f"{claim_of(source.figures.climb).headline}; {format_kept(source.figures.climb)}")
    fields = {"file": str(path), "format": kind, "records": source.figures.record_count, "bytes": len(content)}
    options.print_answer(fields, str(path))


def render_report(source: ReportSource, kind: str) -> bytes:
    figures, state = source.read_on(), source.state()
    text = render_markdown(figures, state) if kind == "md" else render_page(figures, state, source.diffs_of)
    return text.encode("utf-8", "replace")
