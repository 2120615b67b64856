"""Signs that a stream's encoding may not know, in plain letters where it does not."""

from __future__ import annotations

import codecs

LEGIBLE = "goalseek.legible"
_PLAIN = {
    "→": "->",
    "−": "-",  # noqa: RUF001 - a minus
    "±": "+-",
    "·": "|",
    "…": "...",
    "×": "x",  # noqa: RUF001 - times
    "’": "'",  # noqa: RUF001 - an apostrophe
    "✓": "+",
    "✗": "x",
}


def know_plain_letters() -> None:
    """From now on an encoding's errors may be ``LEGIBLE``: a letter that it lacks becomes a plain one, or ``?``.

    The bytes of a file name that are no text are written as they are.
    """
    codecs.register_error(LEGIBLE, _plain)


def _plain(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letter = error.object[error.start]
    if "\udc80" <= letter <= "\udcff":
        return bytes([ord(letter) - 0xDC00]), error.start + 1
    return _PLAIN.get(letter, "?"), error.start + 1
