"""A list that stays small however much is added to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Thinned(Generic[Item]):
    """Every item up to ``most``; beyond that every second one, then every fourth, and so on, evenly spread."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.items: list[Item] = []
        self.added = 0
        self._stride = 1

    def add(self, make: Callable[[], Item]) -> None:
        """Adds an item, or leaves it out without making it."""
        if self.added % self._stride == 0:
            self.items.append(make())
        self.added += 1
        if len(self.items) > self.most:
            self.items = self.items[::2]
            self._stride *= 2

    @property
    def is_whole(self) -> bool:
        """Whether nothing was left out."""
        return len(self.items) == self.added
