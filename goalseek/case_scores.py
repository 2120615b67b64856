"""The scores of one run by case, in the compact form of the records: by positions in the baseline's table of ids."""

import base64
import math
import struct
import zlib
from collections.abc import Mapping

from msgspec import Struct

Scores = Mapping[int, float | None]  # by position in the table; None for a case that was asked in vain


class CaseScores(Struct, frozen=True):
    """``asked`` is a bitmap over the table of ids, from the lowest bit of the first byte on, in base64.

    ``scores`` are those of the asked ones in the table's order, in base64 of zlib's form of little-endian 32-bit
    floats, NaN for a case without a score.
    """

    asked: str
    scores: str

    @classmethod
    def of(cls, scores: Scores) -> "CaseScores":
        """Raises OverflowError for a score of 3.41e38 or more."""
        positions = sorted(scores)
        bitmap = bytearray(positions[-1] // 8 + 1 if positions else 0)
        for position in positions:
            bitmap[position // 8] |= 1 << position % 8
        row = [math.nan if (score := scores[position]) is None else score for position in positions]
        packed = zlib.compress(struct.pack(f"<{len(row)}f", *row), 9)
        return cls(base64.b64encode(bitmap).decode(), base64.b64encode(packed).decode())

    def unpacked(self) -> dict[int, float | None]:
        bitmap = base64.b64decode(self.asked)
        positions = [8 * index + bit for index, byte in enumerate(bitmap) for bit in range(8) if byte >> bit & 1]
        row = struct.unpack(f"<{len(positions)}f", zlib.decompress(base64.b64decode(self.scores)))
        pairs = zip(positions, row, strict=True)
        # A 32-bit float has seven digits: 0.7 comes back as 0.7.
        return {position: None if score != score else float(f"{score:.7g}") for position, score in pairs}
