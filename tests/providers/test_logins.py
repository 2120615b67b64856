"""Logins: which one is found, how a HOME holds it and gives a renewed one back, and how credentials are redacted."""

import json
import os
from pathlib import Path

import pytest

from goalseek.providers.credentials import Credential, find_login
from goalseek.providers.registry import load_maker
from goalseek.sandbox.environment import Redactor
from goalseek.sandbox.home import AgentHome


def test_logins_are_of_one_kind_and_a_file_tells_which(isolated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = load_maker("codex").credentials  # type: ignore[union-attr]
    for name in ("OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert find_login(sources).billing is None
    file = isolated / ".codex" / "auth.json"
    file.parent.mkdir()
    file.write_text('{"OPENAI_API_KEY": null, "tokens": {"refresh_token": "r"}}')
    login = find_login(sources)
    assert (login.billing, login.files[0].real, login.files[0].below_home) == ("subscription", file, ".codex/auth.json")
    file.write_text('{"OPENAI_API_KEY": "key"}')
    assert find_login(sources).billing == "api"
    file.write_text('{"tokens": {}}')
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    assert find_login(sources).variables == ("OPENAI_API_KEY",) and find_login(sources).files == ()
    assert find_login(sources, "subscription").files and find_login(sources, "subscription").variables == ()
    moved = isolated / "elsewhere"
    moved.mkdir()
    (moved / "auth.json").write_text("{}")
    monkeypatch.setenv("CODEX_HOME", str(moved))
    (found,) = find_login(sources, "subscription").files
    assert (found.real, found.below_home) == (moved / "auth.json", ".codex/auth.json")
    assert find_login((Credential("/etc/hostname", "api"),)).files[0].below_home == ""


@pytest.mark.elsewhere
def test_a_login_is_a_link_and_what_is_put_in_its_place_is_taken_back(own: Path) -> None:
    real = own / "real.json"
    real.write_text('{"refresh": "one"}')
    real.chmod(0o600)
    home = AgentHome(own / "agent")
    links = {".codex/auth.json": (real, real)}
    home.make("1 codex", links, {"settings": "text"})
    place = home.path / ".codex" / "auth.json"
    assert place.is_symlink() and (home.path / "settings").read_text() == "text"
    place.write_text('{"refresh": "two"}')
    assert home.collect_renewed_logins() == [] and real.read_text() == '{"refresh": "two"}', "written in place"
    fresh = place.with_name("new")
    fresh.write_text('{"refresh": "three"}')
    fresh.replace(place)
    (home.path / "kept").write_text("session")
    home.make("1 codex", links, {})  # as after a kill, where nobody took it back
    assert real.read_text() == '{"refresh": "three"}' and real.stat().st_mode & 0o777 == 0o600
    assert place.is_symlink() and (home.path / "kept").exists()
    home.make("2 codex", links, {})
    assert not (home.path / "kept").exists() and home.is_of("2 codex") and not home.is_of("1 codex")


def test_a_login_that_others_use_now_stays_the_same_file_and_the_newest_one_counts(own: Path) -> None:
    real, homes = own / "real.json", [AgentHome(own / name) for name in ("first", "second", "third")]
    real.write_text('{"refresh": "longer at first"}')
    os.utime(real, (100, 100))
    inode = real.stat().st_ino
    for moment, home in zip((200, 300, 250), homes, strict=True):  # each renews it before any of them ends
        home.make("1", {"auth.json": (real, real)}, {})
        (home.path / "auth.json").unlink()
        (home.path / "auth.json").write_text(f'{{"refresh": "{moment}"}}')
        os.utime(home.path / "auth.json", (moment, moment))
    for home in homes:
        home.collect_renewed_logins()
    assert json.loads(real.read_text()) == {"refresh": "300"}
    assert (real.stat().st_ino, real.stat().st_mtime) == (inode, 300)


def test_what_is_older_than_the_login_or_no_file_is_not_taken_back(own: Path) -> None:
    real, other = own / "real.json", own / "other"
    real.write_text("mine")
    other.mkdir()
    home = AgentHome(own / "agent")
    links = {".codex/auth.json": (real, real)}
    home.make("1", links, {})
    place = home.path / ".codex" / "auth.json"
    place.unlink()
    place.write_text("stale")
    os.utime(place, (1, 1))
    home.collect_renewed_logins()
    assert real.read_text() == "mine" and not place.exists()
    home.make("1", links, {})
    place.unlink()
    place.parent.rmdir()
    place.parent.symlink_to(other)  # an agent's trap: what is put there lands elsewhere
    home.make("1", links, {})
    assert list(other.iterdir()) == [] and place.is_symlink() and not place.parent.is_symlink()
    place.unlink()
    os.mkfifo(place)
    home.collect_renewed_logins()
    assert real.read_text() == "mine"
    home.make("1", links, {})
    place.unlink()
    place.mkdir()
    home.collect_renewed_logins()
    home.make("1", links, {})
    assert real.read_text() == "mine" and place.is_symlink()


def test_secrets_are_taken_out_whole_across_chunks_and_in_json(tmp_path: Path) -> None:
    secrets = Redactor()
    secrets.add(['sk-"quoted"-12345', "abc"])
    file = tmp_path / "auth.json"
    file.write_text('{"tokens": {"access_token": "access-0123456789"}, "email": "me@example.com-long"}')
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "deep").write_text("[" * 100_000)
    secrets.add_files([file, tmp_path, tmp_path / "gone", tmp_path / "fifo", tmp_path / "deep"])
    shown: list[bytes] = []
    tell = secrets.stream(shown.append)
    for chunk in (b'a sk-"quo', b'ted"-12345 b\nmore abc acc', b'ess-0123456789 sk-\\"quoted\\"-12345', b""):
        tell(chunk)
    assert b"".join(shown) == b"a [credential] b\nmore abc [credential] [credential]"
    assert secrets.contains(b"x access-0123456789") and not secrets.contains(b"me@example.com-long abc")


@pytest.fixture
def home(own: Path) -> AgentHome:
    files = {"small": "text", "sessions/a/1.jsonl": "old", "sessions/b/2.jsonl": "new"}
    made = AgentHome(own / "agent")
    made.make("1", {}, files)
    os.utime(made.path / "sessions/a/1.jsonl", (1, 1))
    return made


def test_the_newest_regular_file_of_a_home_is_read_if_it_has_an_end(home: AgentHome) -> None:
    with (home.path / "endless").open("wb") as file:
        os.truncate(file.fileno(), 2**40)
    assert home.read("small") == b"text"
    assert home.read("sessions/*/*.jsonl") == home.read("sessions/**/*.jsonl") == b"new"
    (home.path / "sessions" / "3.jsonl").symlink_to("/etc/passwd")
    for pattern, why in (("endless", "File too large"), ("sessions/3.*", "symbolic links")):
        with pytest.raises(OSError, match=why):
            home.read(pattern)


def test_a_file_of_home_from_before_this_call_is_not_read_as_its_own(home: AgentHome) -> None:
    home.make("1", {}, {})
    for pattern in ("sessions/a/*.jsonl", "sessions/a/1.jsonl"):
        with pytest.raises(FileNotFoundError):
            home.read(pattern)
