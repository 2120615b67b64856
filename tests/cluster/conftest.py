"""A cluster for tests."""

from collections.abc import Iterator

import pytest
from clusters import Joined


@pytest.fixture
def joined(isolated: object) -> Iterator[Joined]:
    """A scheduler without workers, which a test starts; all have ended after it."""
    cluster = Joined()
    yield cluster
    cluster.close()
