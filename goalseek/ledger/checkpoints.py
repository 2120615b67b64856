"""What a phase answered, stored before the next one begins, so that a killed iteration goes on where it was.

An answer is believed only where it names this run, the ledger commit it follows, the digest of what it was made
from, and carries the seal of all that. Anything else is as if it were not there.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from goalseek.files import write_durably
from goalseek.ledger.seal import Seal
from goalseek.ledger.standing import Standing
from goalseek.own_folders import clear
from goalseek.values import from_plain, to_line, to_plain

Value = TypeVar("Value")
_ANSWERS = "context|plan|change|candidate|evidence|verdict|review|word|record"
_STORED = re.compile(rf"(rejected-)?({_ANSWERS})(-[1-9][0-9]*)?\.json")


@dataclass(frozen=True)
class Checkpoint:
    """A phase's answer with the seconds it took; ``digest`` is what the next answer is made from."""

    value: Any
    seconds: float
    digest: str


def named(answer: str, number: int) -> str:
    """The name under which a phase's answer is stored when it does its work for the n-th time in an iteration."""
    return answer if number == 1 else f"{answer}-{number}"


def rejected_as(stored_as: str) -> str:
    """The name of what is stored in an answer's place where the phase rejects."""
    return f"rejected-{stored_as}"


class Checkpoints:
    """The stored answers of one iteration, in its run folder."""

    def __init__(self, folder: Path, seal: Seal, run_id: str, follows: str) -> None:
        self.folder = folder
        self._seal = seal
        self._run_id = run_id
        self._follows = follows

    def load(self, name: str, kind: type[Value], made_from: str) -> Checkpoint | None:
        """The stored answer, or None where there is none that is ours and made from this."""
        try:
            stored = json.loads((self.folder / f"{name}.json").read_text())
            seal = stored.pop("seal")
            body = to_line(stored)
            expected = {"name": name, "run_id": self._run_id, "follows": self._follows, "made_from": made_from}
            if not self._seal.holds(seal, "memory", body) or any(stored[key] != expected[key] for key in expected):
                return None
            return Checkpoint(from_plain(kind, stored["value"]), stored["seconds"], seal)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def save(self, name: str, value: Any, made_from: str, seconds: float) -> Checkpoint:
        """Stores an answer: a temporary name, fsync, rename."""
        content, seal = self._sealed(name, value, made_from, seconds)
        write_durably(self.folder / f"{name}.json", content)
        return Checkpoint(value, seconds, seal)

    def note(self, name: str, value: Any, made_from: str) -> None:
        """Stores what is worth no fsync, and nothing where it cannot be written: a cut power may lose it, no kill."""
        temporary = self.folder / f"{name}.json.new"
        with contextlib.suppress(OSError):
            temporary.write_bytes(self._sealed(name, value, made_from, 0.0)[0])
            temporary.replace(self.folder / f"{name}.json")

    def _sealed(self, name: str, value: Any, made_from: str, seconds: float) -> tuple[bytes, str]:
        """What is written for an answer, and its seal."""
        stored = {
            "name": name,
            "run_id": self._run_id,
            "follows": self._follows,
            "made_from": made_from,
            "seconds": seconds,
            "value": to_plain(value),
        }
        body = to_line(stored)
        seal = self._seal.of("memory", body)
        return f'{body[:-1]},"seal":"{seal}"}}\n'.encode(), seal

    def chain(self, made_from: str) -> list[str]:
        """The names of the stored answers that are ours and made from this, each from the one before."""
        following: dict[str, tuple[str, str]] = {}
        for name, stored in self._stored():
            following.setdefault(stored["made_from"], (name, stored["seal"]))
        names: list[str] = []
        while made_from in following and len(names) < len(following):
            name, made_from = following[made_from]
            names.append(name)
        return names

    def made_from(self, digest: str) -> set[str]:
        """The names of the stored answers that are ours and made from this."""
        return {name for name, stored in self._stored() if stored["made_from"] == digest}

    def _stored(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The stored answers that are ours, by name: of two made from the same, a try comes before a verdict."""
        for path in sorted(self.folder.glob("*.json")):
            if _STORED.fullmatch(path.name) and _is_sealed(path, self._seal):
                stored = json.loads(path.read_text())
                bound = {"name": path.stem, "run_id": self._run_id, "follows": self._follows}
                if all(stored[key] == bound[key] for key in bound):
                    yield path.stem, stored

    @staticmethod
    def value_of(folder: Path, name: str, seal: Seal) -> Any:
        """What an iteration that is recorded had stored, as plain JSON; None where it is gone, or not sealed by us."""
        try:
            stored = json.loads((folder / f"{name}.json").read_text())
            held = stored.pop("seal")
            return stored["value"] if seal.holds(held, "memory", to_line(stored)) else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    @staticmethod
    def not_sealed(folder: Path, seal: Seal) -> list[str]:
        """The file names of stored answers that are there, and whose seal does not hold."""
        paths = (path for path in sorted(folder.glob("*.json")) if _STORED.fullmatch(path.name))
        return [path.name for path in paths if path.is_symlink() or not _is_sealed(path, seal)]

    def forget(self, name: str) -> None:
        """Removes a stored answer."""
        clear(self.folder / f"{name}.json")


def _is_sealed(path: Path, seal: Seal) -> bool:
    try:
        stored = json.loads(path.read_text())
        return seal.holds(stored.pop("seal"), "memory", to_line(stored))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


BEAT_SECONDS = 0.5
_NAME = "seconds"


@dataclass(frozen=True)
class Seconds:
    """By phase."""

    phases: dict[str, float] = field(default_factory=dict)


class PhaseSeconds:
    """What the next record has to tell. ``memory`` binds it to that; ``clock`` counts active seconds."""

    def __init__(self, checkpoints: Checkpoints, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._memory = checkpoints
        stored = checkpoints.load(_NAME, Seconds, _NAME)
        self.phases: dict[str, float] = dict(stored.value.phases) if stored else {}
        self._at_work = ""
        self._counted_to = 0.0

    @contextlib.contextmanager
    def of(self, phase: str) -> Iterator[None]:
        """Counts this block for the phase, however it ends; it is written before this returns."""
        self._at_work, self._counted_to = phase, self.clock()
        try:
            yield
        finally:
            self._count()
            self._at_work = ""

    def beat(self) -> None:
        """Writes what the phase at work took until now, when it is time."""
        if self._at_work and self.clock() - self._counted_to >= BEAT_SECONDS:
            self._count()

    def forget(self) -> None:
        """Removes what is stored: it is recorded."""
        self._memory.forget(_NAME)

    def _count(self) -> None:
        now = self.clock()
        self.phases[self._at_work] = self.phases.get(self._at_work, 0.0) + now - self._counted_to
        self._counted_to = now
        self._memory.note(_NAME, Seconds(self.phases), _NAME)


def settle_key(standing: Standing) -> str:
    """Names the next run of a settling."""
    return f"settle {len(standing.settling)} after {standing.last.seal if standing.last else ''}"


def holdout_key(standing: Standing) -> str:
    """Names the last look at the holdout, and whether it came to an end."""
    reason = next((look.reason for look in standing.holdout if look.look == standing.looks), "")
    return f"holdout {standing.looks} {reason}"


def all_unrecorded(runs: Path, own: Path, standing: Standing, run_id: str) -> float:
    """The seconds that this run has spent since the last record, in the iteration under way and outside of it."""
    folder, follows = runs / f"{standing.last_iteration + 1:04d}", standing.last.seal if standing.last else ""
    outside = (unrecorded_seconds(own, run_id, key) for key in (settle_key(standing), holdout_key(standing)))
    return unrecorded_seconds(folder, run_id, follows) + sum(outside)


def unrecorded_seconds(folder: Path, run_id: str, follows: str) -> float:
    """All seconds of this run that are stored there for what follows this.

    For whoever only looks: the seal is not checked.
    """
    try:
        stored = json.loads((folder / f"{_NAME}.json").read_text())
        if (stored["run_id"], stored["follows"]) != (run_id, follows):
            return 0.0
        total = math.fsum(stored["value"]["phases"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return 0.0
    return total if math.isfinite(total) else 0.0
