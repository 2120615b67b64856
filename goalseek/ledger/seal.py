"""The seal of a project: an HMAC with its secret, of checkpoints, snapshots and records, checked when read."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from goalseek.disk import open_atomic
from goalseek.values import to_line

_KEY_LENGTH = 8
_FORM = re.compile(rf"([0-9a-f]{{{_KEY_LENGTH}}})-[0-9a-f]{{64}}")


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
        """The seal of these texts, in this order."""
        return f"{self.key}-{self.digest(*parts)}"

    def digest(self, *parts: str) -> str:
        """The HMAC of these texts, in this order, as 64 hexadecimal digits."""
        joined = b"".join(len(raw).to_bytes(8, "big") + raw for raw in (part.encode() for part in parts))
        return hmac.new(self._secret, joined, hashlib.sha256).hexdigest()

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
