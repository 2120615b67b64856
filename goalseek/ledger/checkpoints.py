"""Checkpoints: each phase's result, stored before the next phase begins, so that a kill loses none.

One is used only if its run, the record before it, the digest of the phase's input and its seal all match, so a torn one
counts as missing. ``STORED`` says what a power cut may take.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct, structs

from goalseek.disk import remove_if_exists, write_atomic, write_new
from goalseek.ledger.standing import Standing
from goalseek.values import Usage, from_plain, to_line

Value = TypeVar("Value")
STORED: dict[str, Literal["durable", "carried", "made again"]] = {
    "calls": "durable",  # the calls that the next record pays for, stored before an agent is called
    "plan": "durable",  # an answer that was paid for; "carried" if nobody was asked
    "change": "durable",
    "review": "durable",
    "word": "durable",  # a person's
    "evidence": "durable",  # the measurements
    "begun": "durable",  # the record that one of several iterations follows
    "context": "carried",  # a plan or a change is made from it, and the evidence from a candidate
    "candidate": "carried",
    "verdict": "made again",  # from the evidence
    "record": "made again",
    "seconds": "made again",  # counted from the phases
    "failed": "made again",  # the error comes again
}
"""What a power cut may take. A kill takes nothing.

* durable: synced, with its name, before the next phase begins.
* carried: not synced. It counts with a later durable one of its iteration, and those have copies.
* made again: not synced.

The blobs of a change are synced before it is stored, all other objects with the record (``Objects.sync``). Everything
in ``logs/``, tip and branch are made again from the ledger. An artifact for people may be left torn.
"""
_KEY_LENGTH = 8
_FORM = re.compile(rf"([0-9a-f]{{{_KEY_LENGTH}}})-[0-9a-f]{{64}}")
_ANSWERS = "context|plan|change|candidate|evidence|verdict|review|word|record"
_FLYING = re.compile(r"begun(?:-([0-9]+))?\.json")
_STORED = re.compile(rf"(rejected-)?({_ANSWERS})(?:-([1-9][0-9]*))?")


def key_of(seal: str) -> str | None:
    """The key that the seal names; None for text of another form."""
    match = _FORM.fullmatch(seal)
    return match[1] if match else None


class Seal:
    """Seals with a secret made at the first run. Without a sandbox they find accidents, not forgery.

    Each begins with ``key``, a public digest of the secret. A clone that continues the climb makes its own secret.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self.key = hashlib.sha256(b"goalseek key\0" + secret).hexdigest()[:_KEY_LENGTH]

    @classmethod
    def open(cls, folder: Path) -> Seal:
        """Read the folder's secret, or make one that only its owner can read. Needs the project's lock."""
        path = folder / "secret"
        if not path.exists():
            write_atomic(path, os.urandom(32), durable=True, mode=0o600)
        return cls(path.read_bytes())

    def of(self, *parts: str) -> str:
        return f"{self.key}-{self.digest(*parts)}"

    def digest(self, *parts: str) -> str:
        """HMAC-SHA256 of the texts in this order, as hexadecimal digits."""
        joined = b"".join(len(raw).to_bytes(8, "big") + raw for raw in (part.encode() for part in parts))
        return hmac.digest(self._secret, joined, "sha256").hex()

    def of_record(self, row: Mapping[str, Any], before: str) -> str:
        """``row`` is the record as plain JSON; ``before`` is the ledger commit that it follows, "" for the root."""
        return self.of("record", before, to_line({**row, "seal": ""}))

    def expected(self, row: Mapping[str, Any], before: str) -> str | None:
        """None if the record names another key, and cannot be checked here."""
        seal = self.of_record(row, before)
        return seal if key_of(str(row.get("seal"))) in (None, self.key) else None

    def holds(self, seal: str, *parts: str) -> bool:
        return hmac.compare_digest(seal.encode("utf-8", "replace"), self.of(*parts).encode())

    def seed(self, run_id: str, iteration: int, measurement: int) -> int:
        """0 to 2**31 - 1: different for each measurement, the same if it is resumed."""
        return int(self.digest("seed", run_id, str(iteration), str(measurement))[:8], 16) & 0x7FFFFFFF


class CheckpointName(Struct, frozen=True):
    """``number`` counts the answers of one kind in an iteration."""

    answer: str
    number: int = 1
    is_rejection: bool = False

    def __str__(self) -> str:
        count = "" if self.number == 1 else f"-{self.number}"
        return f"{'rejected-' if self.is_rejection else ''}{self.answer}{count}"

    @property
    def rejection(self) -> CheckpointName:
        return structs.replace(self, is_rejection=True)

    @classmethod
    def parse(cls, text: str) -> CheckpointName | None:
        """Parse a file name without its ending; None if it is no phase's answer."""
        match = _STORED.fullmatch(text)
        return cls(match[2], int(match[3] or 1), bool(match[1])) if match else None


class Begun(Struct, frozen=True):
    """``seq`` and ``follows`` are number and seal of the record before it; ``slot`` is where it proposes.

    ``trial`` is the commit of the try that it takes, "" for a proposal.
    """

    iteration: int
    seq: int
    follows: str
    slot: int = 0
    trial: str = ""


class Checkpoint(Struct, frozen=True):
    """``seal`` is the input digest of the next phase. In a file, ``value`` is plain JSON."""

    value: Any
    made_from: str
    seal: str
    seconds: float

    def decoded(self, kind: type, input_digest: str) -> Checkpoint | None:
        """The same, its value read from JSON; None if that is not of ``kind``, or was made from another input."""
        if self.made_from != input_digest:
            return None
        try:
            return structs.replace(self, value=from_plain(kind, self.value))
        except ValueError:
            return None


class Checkpoints:
    """``follows`` is the seal of the record before the iteration. Without ``seal``, for readers, seals are believed."""

    def __init__(self, folder: Path, seal: Seal | None, run_id: str, follows: str) -> None:
        self.folder = folder
        self.run_id = run_id
        self._seal = seal
        self._follows = follows
        self._carried: dict[str, Any] = {}

    def of_run(self, run_id: str) -> Checkpoints:
        other = Checkpoints(self.folder, self._seal, run_id, self._follows)
        if not run_id:  # the calls carry the checkpoints of this run
            other._carried = self._carried
        return other

    def load(self, name: CheckpointName, kind: type[Value], input_digest: str) -> Checkpoint | None:
        """None if this run has none with a valid seal and this input digest."""
        stored = self._matching(name, read_sealed(f"{self.folder}/{name}.json", self._seal))
        return stored.decoded(kind, input_digest) if stored else None

    def save(self, name: CheckpointName, value: Any, input_digest: str, seconds: float) -> Checkpoint:
        assert self._seal
        text, fate = str(name), STORED[name.answer]
        if text.startswith("plan") and not value.title and value.usage == Usage():
            fate = "carried"  # its author plans while it edits
        stored = {
            "name": text,
            "run_id": self.run_id,
            "follows": self._follows,
            "made_from": input_digest,
            "seconds": seconds,
            "value": value,
        }
        if fate == "durable" and self._carried:
            stored["earlier"] = self._carried
        try:
            body = msgspec.json.encode(stored).decode()  # a quarter of the time of to_line
        except UnicodeEncodeError:  # a lone surrogate is JSON to json alone
            body = to_line(stored)
        seal = self._seal.of("memory", body)
        # These may be the first in a folder, and say that it is ours: a kill leaves them whole, or not at all.
        write = write_atomic if name.answer in ("context", "failed", "begun") else write_new
        write(self.folder / f"{text}.json", f'{body[:-1]},"seal":"{seal}"}}\n', durable=fate == "durable")
        if fate == "carried":
            self._carried[text] = {**stored, "seal": seal}
        return Checkpoint(value, input_digest, seal, seconds)

    def note_seconds(self, phases: Mapping[str, float]) -> None:
        """Errors are ignored."""
        with contextlib.suppress(OSError):
            self.save(SECONDS, {"phases": phases}, str(SECONDS), 0.0)

    def load_seconds(self) -> dict[str, float]:
        """Active seconds by phase; empty before the first."""
        stored = self.load(SECONDS, dict[str, dict[str, float]], str(SECONDS))
        return dict(stored.value.get("phases", {})) if stored else {}

    def stored(self) -> dict[CheckpointName, Checkpoint]:
        """This run's answers by file name: of two with one input digest, an attempt comes before a verdict."""
        rows: dict[str, Any] = {}
        for path in self.folder.glob("*.json"):
            is_known = CheckpointName.parse(path.stem) or path.stem == str(CALLS)
            if is_known and (row := read_sealed(path, self._seal)):
                rows = {**row.get("earlier", {}), **rows, path.stem: row}
        answers = {}
        for text, row in sorted(rows.items()):
            if (name := CheckpointName.parse(text)) and (stored := self._matching(name, row)):
                answers[name] = stored
                if name.answer in ("context", "plan", "candidate"):
                    self._carried[text] = row
        return answers

    def _matching(self, name: CheckpointName, stored: Mapping[str, Any]) -> Checkpoint | None:
        try:
            if (stored["name"], stored["run_id"], stored["follows"]) != (str(name), self.run_id, self._follows):
                return None
            return Checkpoint(*(stored[key] for key in Checkpoint.__struct_fields__))
        except (KeyError, TypeError):
            return None

    def forget(self, name: CheckpointName) -> None:
        remove_if_exists(self.folder / f"{name}.json")


def read_sealed(path: Path | str, seal: Seal | None) -> dict[str, Any]:
    """A checkpoint as plain JSON; empty if it is gone, or not sealed by us. Without ``seal``, seals are believed."""
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - read often, and Path takes as long as the reading
            text = file.read()
        stored: dict[str, Any] = dict(json.loads(text))
        if seal is None:
            return stored if isinstance(stored.get("earlier", {}), dict) else {}
        body, _, end = text.rpartition(',"seal":')
        is_sealed = end == f'"{stored["seal"]}"}}\n' and seal.holds(stored["seal"], "memory", body + "}")
        return stored if is_sealed else {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def chain(answers: Mapping[CheckpointName, Checkpoint], input_digest: str) -> list[CheckpointName]:
    """The answers from this input digest on, each made from the one before."""
    following: dict[str, tuple[CheckpointName, str]] = {}
    for name, stored in answers.items():
        following.setdefault(stored.made_from, (name, stored.seal))
    names: list[CheckpointName] = []
    while input_digest in following and len(names) < len(following):
        name, input_digest = following[input_digest]
        names.append(name)
    return names


CALLS = CheckpointName("calls")
FAILED = CheckpointName("failed")  # the error with which the last invocation ended in an iteration; of no run
SECONDS = CheckpointName("seconds")


class Flight:
    """Iterations under way in parallel, from begin to record. Without ``seal``, for readers, seals are believed."""

    def __init__(self, runs: Path, seal: Seal | None, run_id: str) -> None:
        self.folder = runs / "flight"
        self._checkpoints = Checkpoints(self.folder, seal, run_id, "")

    def begun(self) -> list[Begun]:
        names = [CheckpointName("begun", number) for number in sorted(self.numbers())]
        stored = (self._checkpoints.load(name, Begun, str(name)) for name in names)
        return [checkpoint.value for checkpoint in stored if checkpoint]

    def numbers(self) -> set[int]:
        """Includes those begun by a run that was given up."""
        paths = (_FLYING.fullmatch(path.name) for path in self.folder.glob("begun*.json"))
        return {int(match[1] or 1) for match in paths if match}

    def add(self, begun: Begun) -> None:
        name = CheckpointName("begun", begun.iteration)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._checkpoints.save(name, begun, str(name), 0.0)

    def remove(self, iteration: int) -> None:
        self._checkpoints.forget(CheckpointName("begun", iteration))


def under_way(runs: Path, standing: Standing, run_id: str) -> list[Begun]:
    """Iterations without a record, oldest first; without parallel ones the next, begun or not."""
    beside = Flight(runs, None, run_id).begun()
    return beside or [Begun(standing.next_iteration, standing.seq, standing.last_seal)]


def settle_key(standing: Standing) -> str:
    """Takes the place of ``follows`` for the next measurement of a settling."""
    return f"settle {len(standing.settling)} after {standing.last_seal}"


def holdout_key(standing: Standing) -> str:
    """Takes the place of ``follows`` for the last look; its reason says whether that ended."""
    reason = next((look.reason for look in standing.holdout if look.look == standing.looks), "")
    return f"holdout {standing.looks} {reason}"


def total_unrecorded_seconds(runs: Path, own: Path, standing: Standing, run_id: str) -> float:
    """Active seconds of this run since the last record, with those of settling and the holdout."""
    folder, follows = runs / f"{standing.next_iteration:04d}", standing.last_seal
    flight = Flight(runs, None, run_id)
    if standing.last and flight.begun():
        folder, follows = flight.folder, standing.last.seal
    outside = (unrecorded_seconds(own, run_id, key) for key in (settle_key(standing), holdout_key(standing)))
    return unrecorded_seconds(folder, run_id, follows) + sum(outside)


def unrecorded_usage(runs: Path, standing: Standing, run_id: str) -> tuple[Usage, Usage]:
    """Usage of stored answers and charged calls since the last record: of this run, and of earlier ones."""
    usages: list[Any] = []
    before: list[Any] = []
    for begun in under_way(runs, standing, run_id):
        checkpoints = Checkpoints(runs / f"{begun.iteration:04d}", None, run_id, begun.follows)
        answers = checkpoints.stored()
        names = chain(answers, f"iteration {begun.iteration}")
        usages += [answers[name].value["usage"] for name in names if name.answer in ("plan", "change", "review")]
        stored = checkpoints.of_run("").load(CALLS, dict, str(CALLS))
        calls = stored.value["calls"] if stored else ()
        for call in filter(lambda call: call["charged"], calls):
            (usages if call.get("run_id", "") in ("", run_id) else before).append(call["charged"])
    own, earlier = (Usage.total(from_plain(Usage, usage) for usage in each) for each in (usages, before))
    return own, earlier


def unrecorded_seconds(folder: Path, run_id: str, follows: str) -> float:
    """Active seconds in ``folder`` after the record with the seal ``follows``; seals are not checked."""
    total = math.fsum(Checkpoints(folder, None, run_id, follows).load_seconds().values())
    return total if math.isfinite(total) else 0.0
