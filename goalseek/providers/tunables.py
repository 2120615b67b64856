"""Tunables: constants that a comment marks, in files of any language, with their allowed values.

``RATE = 0.1  # goalseek: float 1e-4..1 log``, ``depth: 3  // goalseek: int 1..12``, ``KERNEL = "rbf"  # goalseek:
choice "rbf" "linear"``. Pure: bytes in, constants or bytes out. Only a literal's own characters are ever replaced.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from goalseek.errors import GoalseekError
from goalseek.git.paths import quote_path

Value = float | int | str
_READERS: dict[str, Callable[[str], Value]] = {"float": float, "int": int, "choice": str}

EXAMPLE = "LEARNING_RATE = 0.1  # goalseek: float 1e-4..1 log"
_FORMS = 'write float LOW..HIGH [log], int LOW..HIGH [log | step N], or choice "A" "B"'
_EXACT = 2**53
_BLOCKS = ((r"/\*+", r"\*/"), ("<!--", "-->"), (r"\(\*", r"\*\)"), (r"\{-", r"-\}"), (r"\{#", r"#\}"))
_WORDS = r"(?:\w(?:[\w \t,.:()]|-(?=\w))*?[ \t,.:(](?=goalseek:[ \t]*(?:float|int|choice)\b))?"
_MARK = rf"[ \t]*{_WORDS}goalseek:"
_BLOCK_COMMENTS = "|".join(rf"{start}{_MARK}([^\r\n]*?)(?:{end}|(?=[\r\n]|\Z))" for start, end in _BLOCKS)
_COMMENT = re.compile(rf"{_BLOCK_COMMENTS}|(?:\#+|//+!?|--+|;+|%+|!){_MARK}([^\r\n]*)")
_NUMBER = re.compile(
    r"(?<![\w.])(?!0[xXbBoO]\w)"
    r"((?>(?:(?<![\w.)\]])[-+])?(?:\d+(?:_\d+)*(?:\.\d+|\.(?![\w.]))?|\.\d+)(?:[eE][-+]?\d+)?))"
    r"(?=_?[A-Za-z]\w*(?![\w.])|%|(?![\w.]))"
)
_QUOTED = re.compile(r'"([^"\\\r\n]*)"|' r"'([^'\\\r\n]*)'|" r"`([^`\\\r\n]*)`")
_BARE = re.compile(r"[^\s\"'`,;:=()\[\]{}<>]+")
_OPTION = re.compile(r"""\s*,?\s*(?:"([^"'`\\]+)"|'([^"'`\\]+)'|([^\s"'`\\,]+))(?=[\s,]|\Z)""")
_ANNOTATED = re.compile(r"([^\W\d][\w.$-]*)[\"']?\s*(?<!:):(?![:=])\s*[^\s=:;,]+\s*=[^\w=]*\Z")
_GO_TYPES = r"(?:u?int(?:8|16|32|64)?|float(?:32|64)|string|bool|byte|rune)"
_GO = re.compile(rf"\b(?:var|const)\s+(\w+)\s+{_GO_TYPES}\s*=[^\w=]*\Z")
_IDENTIFIER = re.compile(r"(?<![\w.])[^\W\d][\w.$-]*")


class Domain(Struct, frozen=True):
    """The allowed values of a constant, of kind "float" or "int", or the ``options`` of "choice"."""

    kind: str
    low: float = 0
    high: float = 0  # is allowed itself
    log: bool = False
    step: int = 1  # of kind "int" only ``low`` plus multiples of it are allowed
    options: tuple[str, ...] = ()

    @property
    def values(self) -> Sequence[Value] | None:
        """All of them; None if they cannot be listed."""
        return range(int(self.low), int(self.high) + 1, self.step) if self.kind == "int" else self.options or None

    def holds(self, value: Value) -> bool:
        if self.options or isinstance(value, str):
            return value in self.options
        return self.low <= value <= self.high and (self.kind == "float" or (value - self.low) % self.step == 0)

    def read(self, text: str) -> Value | None:
        try:
            return _READERS[self.kind](text)
        except ValueError:
            return None

    def nearest(self, value: Value) -> Value:
        """Floats get four significant digits, and never leave the bounds."""
        if isinstance(value, str):
            return value
        if self.kind == "float":
            return min(max(float(f"{float(value):.4g}"), self.low), self.high) + 0.0
        inside = int(min(max(value, self.low), self.high))
        return inside - (inside - int(self.low)) % self.step

    def __str__(self) -> str:
        if self.options:
            return "choice " + " ".join(f'"{option}"' for option in self.options)
        text = f"{self.kind} {format_literal(self.low)}..{format_literal(self.high)}"
        return text + (" log" if self.log else "") + (f" step {self.step}" if self.step > 1 else "")


class Constant(Struct, frozen=True):
    path: str
    line: int
    name: str
    domain: Domain
    value: Value
    start: int  # of the literal's characters in the file's text
    end: int


def find_constants(path: str, content: bytes) -> tuple[Constant, ...]:
    """The marked constants of one file, in order. Raises GoalseekError with file, line and remedy."""
    if b"goalseek:" not in content:
        return ()
    text = content.decode("utf-8", "surrogateescape")
    constants: list[Constant] = []
    region_end = 0
    for comment in _COMMENT.finditer(text):
        line_start = max(text.rfind("\n", 0, comment.start()), text.rfind("\r", 0, comment.start())) + 1
        line = len(re.findall(r"\r\n|\r|\n", text[:line_start])) + 1
        specification = next(group for group in comment.groups() if group is not None).strip()
        region_start, region_end = max(region_end, line_start), comment.end()
        region = text[region_start : comment.start()]
        is_kind = specification.split()[:1] in (["float"], ["int"], ["choice"])
        if not region.strip() and not (is_kind and re.match(r"\W*goalseek:", comment[0])):
            continue  # a comment of its own that speaks of marks
        try:
            domain = _domain(specification)
            start, end, value = (_choice if domain.options else _number)(region, domain)
            name = _name(region[:start]) or f"line{line}"
            constant = Constant(path, line, name, domain, value, region_start + start, region_start + end)
            if earlier := next((other for other in constants if other.name == constant.name), None):
                raise GoalseekError(
                    f"{constant.name} is marked in line {earlier.line} already", "give one another name"
                )
        except GoalseekError as error:
            raise GoalseekError(f"{quote_path(path)}:{line}: {error.message}", error.hint) from None
        constants.append(constant)
    return tuple(constants)


def by_name(constants: Iterable[Constant]) -> dict[str, Constant]:
    """Keyed by name, or ``path:NAME`` if files share the name."""
    listed = tuple(constants)
    count = Counter(constant.name for constant in listed)
    return {
        constant.name if count[constant.name] == 1 else f"{quote_path(constant.path)}:{constant.name}": constant
        for constant in listed
    }


def rewrite(content: bytes, values: Mapping[Constant, Value]) -> bytes:
    """The file with other values and every other byte unchanged. A literal with that value already stays."""
    text = content.decode("utf-8", "surrogateescape")
    for constant in sorted(values, key=lambda constant: constant.start, reverse=True):
        if values[constant] != constant.value:
            text = text[: constant.start] + format_literal(values[constant]) + text[constant.end :]
    return text.encode("utf-8", "surrogateescape")


def format_literal(value: Value) -> str:
    """An exponent always has a point before it: YAML takes ``1e-05`` for a text."""
    if isinstance(value, str):
        return value
    text = repr(value)
    return text.replace("e", ".0e") if "e" in text and "." not in text else text


def format_value(value: Value) -> str:
    """For titles: numbers as they are written, texts in JSON's quotes."""
    return json.dumps(value, ensure_ascii=not value.isprintable()) if isinstance(value, str) else format_literal(value)


def _domain(specification: str) -> Domain:
    kind, rest = (*specification.split(None, 1), "", "")[:2]
    if kind == "choice":
        options: list[str] = []
        position = 0
        while rest[position:].strip():
            match = _OPTION.match(rest, position)
            if not match:
                hint = 'write them as "A" "B", without quotes inside'
                raise GoalseekError(f"cannot read the choices {rest.strip()!r}", hint)
            options.append(match[1] or match[2] or match[3])
            position = match.end()
        if len(set(options)) < 2 or len(set(options)) < len(options):
            raise GoalseekError("a choice needs at least two different values", 'write choice "A" "B"')
        return Domain("choice", options=tuple(options))
    if kind not in _READERS:
        raise GoalseekError(f"unknown kind {kind!r} of mark", _FORMS)
    match = re.fullmatch(r"\s*(\S+?)\s*\.\.\s*(\S+)(?:\s+(log)|\s+step\s+(\d+))?\s*", rest)
    if not match or (match[4] and kind == "float"):
        raise GoalseekError(f"cannot read the mark {specification!r}", _FORMS)
    span, low, high = f"{match[1]}..{match[2]}", Domain(kind).read(match[1]), Domain(kind).read(match[2])
    if not isinstance(low, int | float) or not isinstance(high, int | float):
        raise GoalseekError(f"{span} are not two numbers of kind {kind}", _FORMS)
    if not (math.isfinite(low) and math.isfinite(high)) or (kind == "int" and max(abs(low), abs(high)) > _EXACT):
        raise GoalseekError(f"the range {span} is too wide", "write finite bounds, integers within 2**53")
    if low >= high:
        raise GoalseekError(f"the range {span} is empty", "write the lower bound first, then a higher one")
    if match[3] and low <= 0:
        raise GoalseekError(
            f"a range with log cannot start at {match[1]}", "write a lower bound above 0, or leave out log"
        )
    step = int(match[4] or 1)
    if match[4] and not 1 <= step <= high - low:
        raise GoalseekError(f"step {step} does not fit into {span}", "write a step of at least 1")
    return Domain(kind, low, high, bool(match[3]), step)


def _number(region: str, domain: Domain) -> tuple[int, int, Value]:
    for match in reversed(list(_NUMBER.finditer(region))):
        value = domain.read(match[1])
        if value is not None:
            return match.start(1), match.end(1), value
    raise GoalseekError(
        f"no {domain.kind} value before the mark", f"write the value on the mark's line, such as {EXAMPLE}"
    )


def _choice(region: str, domain: Domain) -> tuple[int, int, Value]:
    quoted = [match.span(match.lastindex or 0) for match in _QUOTED.finditer(region)]
    outside = _QUOTED.sub(lambda match: " " * len(match[0]), region)
    bare = [match.span() for match in _BARE.finditer(outside)]
    spans = sorted(quoted + bare)
    if not spans:
        raise GoalseekError("no value before the mark", "write the value on the mark's line, quoted or as one word")
    allowed = [span for span in spans if domain.holds(region[slice(*span)])]
    start, end = (allowed or quoted or bare)[-1]
    if (start, end) in bare and not all(_BARE.fullmatch(option) for option in domain.options):
        raise GoalseekError("one of the choices is not a single word, and the value is not quoted", "quote the value")
    if not allowed:
        problem = f"the value {region[start:end]!r} is not among the choices, {domain}"
        raise GoalseekError(problem, "change the value, or the mark so that it holds the value")
    return start, end, region[start:end]


def _name(before: str) -> str:
    if match := _ANNOTATED.search(before) or _GO.search(before):
        return match[1]
    identifiers: list[str] = _IDENTIFIER.findall(before)
    return identifiers[-1] if identifiers else ""
