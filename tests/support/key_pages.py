"""The guide's pages of the manifest's keys, made from its JSON Schema; the published pages are tested against them.

    python tests/support/key_pages.py

writes the published pages again, after ``schemas.py`` has written the schema.
"""

import textwrap
from collections.abc import Iterator

from pages import GUIDE

from goalseek.manifest.keys import Key, manifest_keys

_UNBROKEN = "\0"
HEADS = {
    "manifest": """\
# Keys of the manifest: files and commands

The writable files, the hidden files, and the commands that measure.

The manifest is the file `goalseek.toml`. All paths and globs in it are relative to its folder. A duration is a text such as
`"90s"` or `"8h"`, a size `"2GiB"`; `"none"` switches a limit off.

* `goalseek help manifest-metric` has the keys of the number, `goalseek help manifest-run` those of the run.
* `goalseek help scope.share` explains one key.
* `goalseek manifest show` prints your manifest with every default, `goalseek manifest schema` the JSON Schema.

The baseline pins the hidden and read-only files, the keys of this page and of `manifest-metric` that make the number, and
`[holdout]`. `goalseek status` names later differences, and `goalseek baseline` adopts them.
""",
    "manifest-metric": """\
# Keys of the manifest: the number

The number that is to become better, and its conditions.

`goalseek help manifest` has the files and commands. `goalseek help noise` says when a change is kept, and `goalseek help cases`
when it is kept on an evaluation set.
""",
    "manifest-run": """\
# Keys of the manifest: the run

The providers, the limits of a run, and the permissions of programs.

goalseek reads these tables afresh before each iteration. `goalseek help manifest` has the files and commands.
""",
}
TABLES = {
    "manifest": "version project scope setup verify env log".split(),
    "manifest-metric": "metric guard holdout cheat".split(),
    "manifest-run": "provider review price limits search parallel sandbox approve notify".split(),
}


def page_of_keys(topic: str) -> str:
    """A page with each key of its tables; a key that two tables have in common is explained where it comes first."""
    header_of: dict[tuple[str, str], str] = {}
    pages = {topic: [HEADS[topic].rstrip("\n")] for topic in HEADS}
    for each, names in TABLES.items():
        for name in names:
            for key in (key for key in manifest_keys().values() if key.name.partition(".")[0] == name):
                if key.name == name or key.inner:
                    pages[each] += _lines_of(key, header_of)
    return "\n".join(pages[topic]) + "\n"


def _lines_of(table: Key, header_of: dict[tuple[str, str], str]) -> Iterator[str]:
    if not table.inner:
        yield from ("", *_wrap(table))
        return
    values = [key for key in table.inner if not key.inner]
    known: dict[str, list[str]] = {}
    for key in values:
        header = header_of.setdefault((key.last_name, key.text), table.header)
        if header != table.header:
            known.setdefault(header, []).append(f"`{key.last_name}`")
    yield from ("", f"## {table.header}", "", *textwrap.wrap(table.text, 118))
    if values:
        yield ""
    for key in values:
        if header_of[key.last_name, key.text] == table.header:
            yield from _wrap(key)
    for header, names in known.items():
        yield from _bullet(f"{', '.join(names)}: as in `{header}`.")


def _wrap(key: Key) -> list[str]:
    example = key.example.replace(" ", _UNBROKEN)
    return _bullet(f"`{key.last_name}` ({key.kind}): {key.text} Example: `{example}`")


def _bullet(text: str) -> list[str]:
    wrapper = textwrap.TextWrapper(
        118, initial_indent="* ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    return [line.replace(_UNBROKEN, " ") for line in wrapper.wrap(text)]


if __name__ == "__main__":
    for topic in HEADS:
        (GUIDE / f"{topic}.md").write_text(page_of_keys(topic), "utf-8")
