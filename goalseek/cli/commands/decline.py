"""``goalseek decline``: the change of the iteration that waits for approval is reverted."""

from goalseek.cli.commands import approve
from goalseek.cli.options import Parser, add_why_option

run = approve.run


def arguments(parser: Parser) -> None:
    approve.arguments(parser)
    add_why_option(parser)
