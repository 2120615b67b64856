"""The level of the sandbox is found out by doing, and said in words."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
from rooms import write_program

from goalseek.errors import GoalseekError
from goalseek.sandbox import landlock, landlock_exec, level
from goalseek.sandbox.landlock_exec import restrict
from goalseek.sandbox.level import SandboxLevel, installation_hint, probe


@pytest.fixture(autouse=True)
def looked_for_anew() -> Iterator[None]:
    level._failure.cache_clear()
    yield
    level._failure.cache_clear()


@pytest.fixture
def bwrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in the place of bubblewrap."""
    place = tmp_path / "programs" / "bwrap"
    monkeypatch.setenv("PATH", f"{place.parent}:{os.environ['PATH']}")
    return place


@pytest.mark.elsewhere
@pytest.mark.needs("bwrap")
def test_bubblewrap_works_here() -> None:
    assert probe() == SandboxLevel("bubblewrap") and probe("bubblewrap") == SandboxLevel("bubblewrap")
    assert probe().not_enforced() == ()


def test_a_mode_asks_for_less() -> None:
    assert probe("landlock").name == "landlock"
    assert probe("none") == SandboxLevel("none", ('sandbox.mode = "none"',))


def test_one_that_is_installed_and_forbidden_is_not_believed(bwrap: Path) -> None:
    write_program(bwrap, "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n")
    found = probe()
    assert found == SandboxLevel("landlock", ("bubblewrap: bwrap: No permissions to create new namespace",))
    with pytest.raises(GoalseekError) as refused:
        probe("bubblewrap")
    assert (refused.value.exit_code, refused.value.stop_reason) == (3, "sandbox")
    assert "No permissions" in refused.value.message and refused.value.hint


# As ``which bwrap`` would: it starts the program, which finds its folder, and reads the canary.
STARTS_UNCONFINED = """\
for word; do case "$seen" in --chdir) cd "$word" ;; esac; seen=$word; [ "$word" = -- ] && break; done
while [ "$1" != -- ]; do shift; done; shift; exec "$@"
"""


@pytest.mark.parametrize(
    ("script", "reason"),
    [(STARTS_UNCONFINED, "the probe could read or write what it must not"), ("exit 0", "the probe ended with 0")],
    ids=["keeps nothing from the program", "starts nothing"],
)
def test_one_that_does_not_do_its_work_is_not_believed_and_looked_for_once(
    bwrap: Path, tmp_path: Path, script: str, reason: str
) -> None:
    write_program(bwrap, f"#!/bin/sh\necho started >> {tmp_path}/starts\n{script}\n")
    assert probe().reason == (f"bubblewrap: {reason}",)
    assert probe() == probe() and (tmp_path / "starts").read_text() == "started\n"


def test_without_both_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setitem(level._LAUNCHERS, "landlock", Mock(side_effect=OSError(errno.ENOSYS, "no Landlock")))
    found = probe()
    reasons = ("bubblewrap: there is no program bwrap", "landlock: [Errno 38] no Landlock")
    assert found == SandboxLevel("none", reasons)
    assert "it can read the repository, hidden files included, by its path" in found.not_enforced()
    with pytest.raises(GoalseekError, match="is not available here: there is no program bwrap") as refused:
        probe("bubblewrap")
    assert "apt install bubblewrap" in refused.value.hint
    with pytest.raises(GoalseekError) as refused:
        probe("landlock")
    assert "5.13" in refused.value.hint


@pytest.mark.parametrize(
    ("setting", "value", "told"),
    [
        ("kernel/unprivileged_userns_clone", "0", "unprivileged_userns_clone=1"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "apparmor_restrict_unprivileged_userns=0"),
        ("user/max_user_namespaces", "0", "max_user_namespaces="),
    ],
)
def test_the_setting_that_forbids_it_is_named(tmp_path: Path, setting: str, value: str, told: str) -> None:
    (tmp_path / setting).parent.mkdir()
    (tmp_path / setting).write_text(value + "\n")
    assert told in installation_hint("bubblewrap", tmp_path)
    (tmp_path / setting).write_text("12345\n")
    assert told not in installation_hint("bubblewrap", tmp_path)


def test_what_an_older_kernel_does_not_stop_and_what_the_network_costs_are_told() -> None:
    assert set(landlock.gaps(6, True)) == set(landlock.GAPS)
    for older, word in ((5, "abstract"), (3, "it has the network"), (2, "empty files")):
        assert any(word in gap for gap in landlock.gaps(older, True))
        assert not any(word in gap for gap in landlock.gaps(6, True))
    gaps = SandboxLevel("bubblewrap").not_enforced(network=True)
    assert any("own addresses" in gap and "agent_network = false" in gap for gap in gaps)


def test_a_machine_whose_system_calls_are_unknown_shares_memory_and_keys_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    word = "it shares System V memory"
    assert not any(word in gap for gap in SandboxLevel("landlock").not_enforced())
    monkeypatch.setattr(landlock_exec, "SHARING_CALLS", {})
    assert [gap for gap in SandboxLevel("landlock").not_enforced() if word in gap]


def test_words_of_the_restriction_are_checked() -> None:
    with pytest.raises(SystemExit, match="no option"):
        restrict(["--reed", "/x"])
