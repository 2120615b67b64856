"""Checkpoints of an iteration: the result of each phase, stored before the next begins, so that a kill loses none.

A checkpoint is used only where it names this run, the ledger commit before it, the digest of the phase's input, and
carries the seal of all that; any other is ignored. The active seconds of each phase are stored the same way.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, structs

from goalseek.disk import open_atomic, remove_if_exists, write_atomic
from goalseek.ledger.standing import Standing
from goalseek.values import Usage, from_plain, to_line

Value = TypeVar("Value")
_KEY_LENGTH = 8
_FORM = re.compile(rf"([0-9a-f]{{{_KEY_LENGTH}}})-[0-9a-f]{{64}}")
_ANSWERS = "context|plan|change|candidate|evidence|verdict|review|word|record"
_FLYING = re.compile(r"begun(?:-([0-9]+))?\.json")
_STORED = re.compile(rf"(rejected-)?({_ANSWERS})(?:-([1-9][0-9]*))?")


def key_of(seal: str) -> str | None:
    """The key that a seal says it was made with; None for what has not a seal's form."""
    match = _FORM.fullmatch(seal)
    return match[1] if match else None


class Seal:
    """Seals with a secret that was made at the first run. Without a sandbox it finds accidents, not forgery.

    A seal begins with its ``key``, a short public digest of the secret, which says who can check it. A clone that
    continues the climb makes a secret, and so a key, of its own.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self.key = hashlib.sha256(b"goalseek key\0" + secret).hexdigest()[:_KEY_LENGTH]

    @classmethod
    def open(cls, folder: Path) -> Seal:
        """Reads the secret of this folder, or makes it, readable by its owner alone; under the project's lock only."""
        path = folder / "secret"
        if not path.exists():
            import secrets

            folder.mkdir(parents=True, exist_ok=True)
            with open_atomic(path, durable=True, mode=0o600) as file:
                file.write(secrets.token_bytes(32))
        return cls(path.read_bytes())

    def of(self, *parts: str) -> str:
        return f"{self.key}-{self.digest(*parts)}"

    def digest(self, *parts: str) -> str:
        """The HMAC of these texts, in this order, as 64 hexadecimal digits."""
        joined = b"".join(len(raw).to_bytes(8, "big") + raw for raw in (part.encode() for part in parts))
        return hmac.digest(self._secret, joined, "sha256").hex()

    def of_record(self, row: Mapping[str, Any], before: str) -> str:
        """The seal of a record, as plain JSON, whose ledger commit follows ``before``, "" for the root."""
        return self.of("record", before, to_line({**row, "seal": ""}))

    def expected(self, row: Mapping[str, Any], before: str) -> str | None:
        """The seal that a record must have; None for one that names another key, and cannot be checked here."""
        seal = self.of_record(row, before)
        return seal if key_of(str(row.get("seal"))) in (None, self.key) else None

    def holds(self, seal: str, *parts: str) -> bool:
        """Whether this is the seal of these texts under our key; another's never holds."""
        return hmac.compare_digest(seal.encode("utf-8", "replace"), self.of(*parts).encode())

    def seed(self, run_id: str, iteration: int, measurement: int) -> int:
        """The seed of one measurement, 0 to 2**31 - 1: different for each, the same when it is resumed."""
        return int(self.digest("seed", run_id, str(iteration), str(measurement))[:8], 16) & 0x7FFFFFFF


class CheckpointName(Struct, frozen=True):
    """Which answer of an iteration is stored, its number among those of its kind, and whether it is a rejection."""

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
        """The name that a file has without its ending; None where it is no phase's answer."""
        match = _STORED.fullmatch(text)
        return cls(match[2], int(match[3] or 1), bool(match[1])) if match else None


class Begun(Struct, frozen=True):
    """How an iteration began: its number, the number and seal of the record that it followed, and where it proposes."""

    iteration: int
    seq: int
    follows: str
    slot: int = 0


class Checkpoint(Struct, frozen=True):
    """A phase's answer; its ``seal`` is the digest of the next phase's input. In a file the value is plain JSON."""

    value: Any
    made_from: str
    seal: str
    seconds: float

    def decoded(self, kind: type, input_digest: str) -> Checkpoint | None:
        """The same with a value of this kind, read from JSON; None if it is none, or was made from another input."""
        if self.made_from != input_digest:
            return None
        try:
            return structs.replace(self, value=from_plain(kind, self.value))
        except ValueError:
            return None


class Checkpoints:
    """The checkpoints of one iteration, in its run folder; ``follows`` is the seal of the record before it.

    Without a ``seal``, for whoever only looks, the seals are believed.
    """

    def __init__(self, folder: Path, seal: Seal | None, run_id: str, follows: str) -> None:
        self.folder = folder
        self.run_id = run_id
        self._seal = seal
        self._follows = follows

    def of_run(self, run_id: str) -> Checkpoints:
        """Those of another run, after the same record."""
        return Checkpoints(self.folder, self._seal, run_id, self._follows)

    def load(self, name: CheckpointName, kind: type[Value], input_digest: str) -> Checkpoint | None:
        """The checkpoint, or None where there is none of this run with a valid seal and this input digest."""
        stored = self._read(name)
        return stored.decoded(kind, input_digest) if stored else None

    def save(self, name: CheckpointName, value: Any, input_digest: str, seconds: float) -> Checkpoint:
        """Stores a phase's result: a temporary name, fsync, rename."""
        content, seal = self._encode(name, value, input_digest, seconds)
        write_atomic(self.folder / f"{name}.json", content, durable=True)
        return Checkpoint(value, input_digest, seal, seconds)

    def note_seconds(self, phases: Mapping[str, float]) -> None:
        """Stores active seconds without fsync, if it can: a power cut may lose them, a kill does not."""
        with contextlib.suppress(OSError):
            content, _ = self._encode(SECONDS, {"phases": phases}, str(SECONDS), 0.0)
            write_atomic(self.folder / f"{SECONDS}.json", content)

    def load_seconds(self) -> dict[str, float]:
        """The active seconds by phase that are stored; none where no phase was begun."""
        stored = self.load(SECONDS, dict[str, dict[str, float]], str(SECONDS))
        return dict(stored.value.get("phases", {})) if stored else {}

    def _encode(self, name: CheckpointName, value: Any, input_digest: str, seconds: float) -> tuple[bytes, str]:
        assert self._seal
        stored = {
            "name": str(name),
            "run_id": self.run_id,
            "follows": self._follows,
            "made_from": input_digest,
            "seconds": seconds,
            "value": value,
        }
        body = to_line(stored)
        seal = self._seal.of("memory", body)
        return f'{body[:-1]},"seal":"{seal}"}}\n'.encode(), seal

    def stored(self) -> dict[CheckpointName, Checkpoint]:
        """The phases' answers of this run: of two with the same input digest, an attempt comes before a verdict."""
        answers = {}
        for path in sorted(self.folder.glob("*.json")):
            if (name := CheckpointName.parse(path.stem)) and (stored := self._read(name)):
                answers[name] = stored
        return answers

    def _read(self, name: CheckpointName) -> Checkpoint | None:
        """A checkpoint's file, where it is one of this run, after the same record, and sealed."""
        stored = _read_sealed(f"{self.folder}/{name}.json", self._seal) or {}
        try:
            if (stored["name"], stored["run_id"], stored["follows"]) != (str(name), self.run_id, self._follows):
                return None
            return Checkpoint(*(stored[key] for key in Checkpoint.__struct_fields__))
        except (KeyError, TypeError):
            return None

    @staticmethod
    def stored_value(folder: Path, name: CheckpointName, seal: Seal) -> Any:
        """The value of a recorded iteration's checkpoint, as plain JSON; None where it is gone, or not sealed by us."""
        stored = _read_sealed(f"{folder}/{name}.json", seal)
        return stored.get("value") if stored else None

    @staticmethod
    def unsealed_files(folder: Path, seal: Seal) -> list[str]:
        paths = (path for path in sorted(folder.glob("*.json")) if CheckpointName.parse(path.stem))
        return [path.name for path in paths if path.is_symlink() or not _read_sealed(path, seal)]

    def forget(self, name: CheckpointName) -> None:
        remove_if_exists(self.folder / f"{name}.json")


def _read_sealed(path: Path | str, seal: Seal | None) -> dict[str, Any] | None:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - read often, and Path takes as long as the reading
            stored = json.loads(file.read())
        body = to_line({key: stored[key] for key in stored if key != "seal"})
        is_sealed = seal is None or seal.holds(stored["seal"], "memory", body)
        return stored if is_sealed else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def chain(answers: Mapping[CheckpointName, Checkpoint], input_digest: str) -> list[CheckpointName]:
    """The names of the answers from this input digest on, each made from the one before."""
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
    """The iterations that are under way beside each other, each from its beginning to its record, in ``runs/flight``.

    Without a ``seal``, for whoever only looks, the seals are believed.
    """

    def __init__(self, runs: Path, seal: Seal | None, run_id: str) -> None:
        self.folder = runs / "flight"
        self._checkpoints = Checkpoints(self.folder, seal, run_id, "")

    def begun(self) -> list[Begun]:
        names = [CheckpointName("begun", number) for number in sorted(self.numbers())]
        stored = (self._checkpoints.load(name, Begun, str(name)) for name in names)
        return [checkpoint.value for checkpoint in stored if checkpoint]

    def numbers(self) -> set[int]:
        """The numbers of all, also of those that a run which was given up had begun."""
        paths = (_FLYING.fullmatch(path.name) for path in self.folder.glob("begun*.json"))
        return {int(match[1] or 1) for match in paths if match}

    def add(self, begun: Begun) -> None:
        name = CheckpointName("begun", begun.iteration)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._checkpoints.save(name, begun, str(name), 0.0)

    def remove(self, iteration: int) -> None:
        """Forgets an iteration: it is recorded, or will never be."""
        self._checkpoints.forget(CheckpointName("begun", iteration))


def under_way(runs: Path, standing: Standing, run_id: str) -> list[Begun]:
    """The iterations without a record, oldest first; where one follows the other, the next, begun or not."""
    beside = Flight(runs, None, run_id).begun()
    return beside or [Begun(standing.next_iteration, standing.seq, standing.last_seal)]


def settle_key(standing: Standing) -> str:
    """The name of the next measurement of a settling."""
    return f"settle {len(standing.settling)} after {standing.last_seal}"


def holdout_key(standing: Standing) -> str:
    """The name of the last look at the holdout, with its reason, which says whether it ended."""
    reason = next((look.reason for look in standing.holdout if look.look == standing.looks), "")
    return f"holdout {standing.looks} {reason}"


def total_unrecorded_seconds(runs: Path, own: Path, standing: Standing, run_id: str) -> float:
    """Active seconds of this run since the last record: in what is under way, in settling and in the holdout."""
    folder, follows = runs / f"{standing.next_iteration:04d}", standing.last_seal
    flight = Flight(runs, None, run_id)
    if standing.last and flight.begun():
        folder, follows = flight.folder, standing.last.seal
    outside = (unrecorded_seconds(own, run_id, key) for key in (settle_key(standing), holdout_key(standing)))
    return unrecorded_seconds(folder, run_id, follows) + sum(outside)


def unrecorded_usage(runs: Path, standing: Standing, run_id: str) -> tuple[Usage, Usage]:
    """Usage since the last record, of stored answers and of charged calls: that of this run, and of those before it."""
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
    """Active seconds in ``folder`` that follow the record with the seal ``follows``; seals are not checked."""
    total = math.fsum(Checkpoints(folder, None, run_id, follows).load_seconds().values())
    return total if math.isfinite(total) else 0.0
