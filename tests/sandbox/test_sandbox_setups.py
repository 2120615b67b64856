"""Real set-ups that must just work inside, and what a program finds there."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from project import until
from rooms import SECRET, Room, write_program
from skips import levels

from goalseek.errors import GoalseekError
from goalseek.sandbox import bubblewrap
from goalseek.sandbox.executables import as_manifest_line, required_paths, resolve_links
from goalseek.sandbox.view import SPARE_HOME, Mount, is_system_path, throw_away_home

BOTH = pytest.mark.parametrize("level", levels("landlock", "bubblewrap"))
AS_ROOT = pytest.mark.needs("root")

SURVIVOR = """(setsid env -i sh -c 'trap "" TERM HUP; for n in $(seq 600); do sleep 0.1; touch "$0/alive"; done' "$PWD" >/dev/null 2>&1 &)
while [ ! -e alive ]; do sleep 0.02; done
exit 5"""


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room.make(tmp_path)


def allowed(room: Room, *commands: str, **environment: str) -> tuple[Mount, ...]:
    given = {**os.environ, **environment}
    return tuple(map(Mount.in_place, required_paths(commands, given, room.top)))


@BOTH
def test_a_program_whose_first_line_names_an_environment_in_home(room: Room, level: str) -> None:
    tools = room.users_home / ".local/share/uv/tools/agent"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tools], check=True, timeout=120)
    text = f"#!{tools}/bin/python\nimport sys\nprint('agent of', sys.prefix)\n"
    script = write_program(tools / "bin" / "agent", text)
    commands = room.users_home / ".local/bin"
    commands.mkdir(parents=True)
    (commands / "agent").symlink_to(script)
    (commands / "other").write_text(SECRET)
    path = f"{commands}:{os.environ['PATH']}"
    added = allowed(room, "agent --edit", PATH=path)
    assert room.prints(level, "agent", added=added, environment={"PATH": path}) == f"agent of {tools}"
    assert room.run(level, "cat", str(commands / "other"), added=added).exit_code != 0


@pytest.mark.elsewhere
@pytest.mark.needs("bwrap")
def test_the_tree_is_at_the_repositorys_own_path(room: Room) -> None:
    (room.tree / "only-here").write_text("")
    said = room.prints(
        "bubblewrap", "sh", "-c", 'pwd; ls; echo "$HOME $TMPDIR"; ls -A "$HOME"', environment={"LC_ALL": "C"}
    )
    assert said.split() == [str(room.top), "experiment.py", "only-here", str(room.users_home), "/tmp"]
    room.prints("bubblewrap", "sh", "-c", "echo built > built; echo kept > $HOME/kept")
    assert (room.tree / "built").read_text() == "built\n" and not (room.users_home / "kept").exists()


@pytest.mark.elsewhere
@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("above", ["/var/tmp", "/dev/shm", pytest.param("/srv", marks=AS_ROOT)])
def test_a_repository_may_lie_anywhere(above: str) -> None:
    folder = Path(above, f"goalseek-test-{os.getpid()}")
    try:
        room = Room.make(folder)
        for level in ("landlock", "bubblewrap"):
            script = "echo new > new; echo more > $TMPDIR/more; cat experiment.py"
            assert room.prints(level, "sh", "-c", script) == "print('experiment')"
            if above != "/dev/shm":
                assert room.run(level, "cat", str(room.hidden)).exit_code != 0
        assert room.prints("bubblewrap", "sh", "-c", "pwd; echo > /var/tmp/own") == str(room.top)
        assert room.run("bubblewrap", "cat", str(room.hidden)).exit_code != 0
        assert not Path("/var/tmp/own").exists()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.needs("bwrap")
@AS_ROOT
def test_a_repository_under_a_folder_of_the_systems_is_hidden_by_its_tree(tmp_path: Path) -> None:
    top = Path(f"/opt/goalseek-test-{os.getpid()}")
    try:
        room = Room.make(tmp_path, top)
        beside = top.with_name(top.name + "-verifier")
        beside.mkdir()
        (beside / "labels.csv").write_text(SECRET)
        for level in ("landlock", "bubblewrap"):
            for place in (room.hidden, beside / "labels.csv"):
                masked = (room.top, beside, room.scratch.parent)
                assert room.run("none", "cat", str(place)).stdout == SECRET.encode()
                assert SECRET.encode() not in room.run(level, "cat", str(place), masked=masked).stdout
        assert room.prints("bubblewrap", "pwd", masked=(room.top, beside)) == str(top)
        assert room.run("bubblewrap", "touch", str(beside / "new"), masked=(beside,)).exit_code != 0
    finally:
        shutil.rmtree(top, ignore_errors=True)
        shutil.rmtree(top.with_name(top.name + "-verifier"), ignore_errors=True)


@pytest.mark.needs("bwrap")
def test_a_device_is_there_where_it_is_shown_and_nobody_types_into_the_terminal(room: Room) -> None:
    devices = [path for path in sorted(Path("/dev").glob("tty1*")) if path.is_char_device()]
    script = f"test -c {devices[0]} && echo device; test -e /sys/class && echo classes; true"
    assert room.prints("bubblewrap", "sh", "-c", script) == ""
    shown = (devices[0], Path("/dev/full"))  # any that is on every machine; they stand for graphics cards
    assert room.prints("bubblewrap", "sh", "-c", script, devices=shown) == "device\nclasses"
    setting = Path("/proc/sys/dev/tty/legacy_tiocsti")
    refuses = setting.exists() and setting.read_text().strip() == "0"
    assert "--new-session" in room.ready("bubblewrap", "true").arguments
    assert ("--new-session" in room.ready("bubblewrap", "true", terminal="person's").arguments) == (not refuses)


def test_links_on_the_way_are_followed_one_by_one(tmp_path: Path) -> None:
    (tmp_path / "a" / "real").mkdir(parents=True)
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "a" / "c").symlink_to("../b/real")
    (tmp_path / "loop").symlink_to("loop")
    way = resolve_links(tmp_path / "b" / "c" / "file")
    assert way.real == tmp_path / "a" / "real" / "file"
    assert dict(way.links) == {tmp_path / "b": "a", tmp_path / "a" / "c": "../b/real"}
    assert way.names[0] == tmp_path / "b" / "c" / "file" and way.names[-1] == way.real
    assert tmp_path / "b" / "real" / "file" in way.names
    with pytest.raises(OSError):
        resolve_links(tmp_path / "loop" / "x")


def test_a_system_whose_programs_are_not_all_under_usr(
    room: Room, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """/bin as a real folder is mounted, as a link it is made."""
    (tmp_path / "usr" / "bin").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "sbin").symlink_to("usr/bin")
    places = tuple(tmp_path / name for name in ("usr", "bin", "sbin"))
    monkeypatch.setattr(bubblewrap, "system_paths", lambda network: places)
    bubblewrap._system_layout.cache_clear()
    try:
        mounts, links = bubblewrap.lay_out(room.view())
    finally:
        bubblewrap._system_layout.cache_clear()
    seen_at = [mount.at for mount in mounts.values()]
    assert tmp_path / "usr" in seen_at and tmp_path / "bin" in seen_at and tmp_path / "sbin" not in seen_at
    assert (tmp_path / "sbin", "usr/bin") in links


@pytest.mark.needs("bwrap")
def test_settings_of_the_system_are_one_mount_and_those_of_today(
    room: Room, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A change by a new file, in place, or of a link is seen by the next program; what is not listed never is."""
    etc, added = tmp_path / "etc", "hosts fonts localtime".split()
    (etc / "fonts").mkdir(parents=True)
    for name in ("hosts", "fonts/one", "fonts/locked", "shadow"):
        (etc / name).write_text("old\n")
    (etc / "fonts" / "locked").chmod(0)
    (etc / "fonts" / "link").symlink_to("one")
    (etc / "localtime").symlink_to("/usr/share/zoneinfo/UTC")
    known = tuple(bubblewrap.system_paths(False))
    monkeypatch.setattr(bubblewrap, "system_paths", lambda network: (*known, *(etc / name for name in added)))
    monkeypatch.setattr(bubblewrap, "_SETTINGS", etc)
    bubblewrap._system_layout.cache_clear()
    script = f"cd {etc} && ls && cat hosts fonts/one fonts/link && readlink localtime fonts/link"
    names = os.listdir

    def refuse(path: str) -> list[str]:
        raise PermissionError(13, "locked", path)

    try:
        words = room.ready("bubblewrap", "true").arguments
        assert [word for word in words if word.startswith(str(etc))] == [str(etc)]
        seen = ["fonts", "hosts", "localtime", "old", "old", "old", "/usr/share/zoneinfo/UTC", "one"]
        assert room.prints("bubblewrap", "sh", "-c", script).split() == seen
        assert room.run("bubblewrap", "sh", "-c", f"echo bad >> {etc}/hosts").exit_code != 0
        with (etc / "fonts" / "one").open("a") as file:
            file.write("appended\n")
        (etc / "hosts.new").write_text("new\n")
        (etc / "hosts.new").replace(etc / "hosts")
        seen = ["fonts", "hosts", "localtime", "new", *("old appended".split() * 2), "/usr/share/zoneinfo/UTC", "one"]
        assert room.prints("bubblewrap", "sh", "-c", script).split() == seen
        for shown in (
            {"added": (Mount.in_place(etc / "shadow"),)},
            {"terminal": "own"},
            {"masked": (etc / "fonts" / "one",)},
        ):
            assert str(etc / "hosts") in room.ready("bubblewrap", "true", **shown).arguments
        with monkeypatch.context() as full:
            full.setattr(bubblewrap.shutil, "copy2", lambda source, copy: (_ for _ in ()).throw(OSError(28, "full")))
            (etc / "hosts").write_text("newer\n")
            assert room.prints("bubblewrap", "cat", f"{etc}/hosts") == "newer"
        with monkeypatch.context() as locked:
            locked.setattr(
                bubblewrap.os, "listdir", lambda path: refuse(path) if path == f"{etc}/fonts" else names(path)
            )
            assert str(etc / "fonts") in room.ready("bubblewrap", "true").arguments
        assert room.run("bubblewrap", "grep", "old", f"{etc}/fonts/one", masked=(etc / "fonts" / "one",)).exit_code != 0
        monkeypatch.setattr(bubblewrap, "_MOST_COPIED", 2)  # fonts has three names: it stays a mount
        assert str(etc / "fonts") in room.ready("bubblewrap", "true").arguments
        assert room.prints("bubblewrap", "ls", f"{etc}/fonts") == "link\nlocked\none"
        (etc / "fonts" / "link").unlink()
        assert str(etc / "fonts") not in room.ready("bubblewrap", "true").arguments
        assert "one" in room.prints("bubblewrap", "ls", f"{etc}/fonts").split()
    finally:
        bubblewrap._system_layout.cache_clear()


@BOTH
def test_what_is_missing_or_must_not_be_seen_cannot_be_shown(room: Room, tmp_path: Path, level: str) -> None:
    cache = tmp_path / "cache"
    for shown, said in ((cache, "which programs must not see"), (Path("/no/such/place"), "there is no /no/such/place")):
        with pytest.raises(GoalseekError, match=said) as refused:
            room.ready(level, "true", added=(Mount.in_place(shown),), masked=(cache,))
        assert (refused.value.exit_code, refused.value.stop_reason) == (3, "sandbox")


@pytest.mark.needs("bwrap")
def test_a_link_in_the_way_of_a_mount_is_not_followed(room: Room, tmp_path: Path) -> None:
    (room.top / "deep" / "data").mkdir(parents=True)
    target = tmp_path / "target"
    target.mkdir()
    (room.tree / "deep").symlink_to(target)
    with pytest.raises(OSError):
        room.ready("bubblewrap", "true", added=(Mount.in_place(room.top / "deep" / "data"),))
    assert not list(target.iterdir())


@AS_ROOT
@BOTH
def test_a_tree_of_another_user_can_be_written_by_root(room: Room, level: str) -> None:
    for place in (room.tree, room.tree / "experiment.py"):
        os.chown(place, 12345, 12345)
        place.chmod(0o700)
    assert room.prints(level, "sh", "-c", "echo new > new; cat experiment.py; mount | wc -l") != ""
    assert (room.tree / "new").exists()
    assert SECRET.encode() not in room.run(level, "cat", str(room.hidden)).stdout
    script = "import ctypes; print(ctypes.CDLL(None).umount2(b'/proc', 2))"
    assert room.python(level, script).stdout == b"-1\n"


@BOTH
def test_the_keeper_loads_nothing_that_a_candidate_left(room: Room, level: str) -> None:
    for name in ("libc.so.6", "libcap.so.2", "libm.so.6", "libselinux.so.1"):
        (room.tree / name).write_text("no library")
    both = f"{room.top}:{room.tree}"  # as it is seen, and as it lies on the disk
    given = {"LD_LIBRARY_PATH": both, "PYTHONPATH": both}
    ready = room.ready(level, "/bin/true", environment=given)
    control = subprocess.run(ready.arguments, env={**ready.environment, **given}, capture_output=True, timeout=120)
    assert control.returncode == 127 and b"error while loading shared libraries" in control.stderr
    finished = room.run(level, "/bin/true", environment=given)
    assert finished.exit_code != 0 and b"/bin/true: error while loading shared libraries" in finished.stderr


@pytest.mark.elsewhere
@BOTH
def test_whatever_it_started_ends_with_it(room: Room, level: str) -> None:
    subprocess.run(["sh", "-c", SURVIVOR], cwd=room.tree, check=False, timeout=60)
    survivors = running(room, "$0/alive")
    assert survivors, "the control: without goalseek's reaper it survives"
    for pid in survivors:
        os.kill(pid, signal.SIGKILL)
    (room.tree / "alive").unlink()
    assert room.run(level, "sh", "-c", SURVIVOR).exit_code == 5
    assert not running(room, "$0/alive")


@pytest.mark.elsewhere
@BOTH
def test_whatever_it_started_ends_with_the_one_who_started_it(room: Room, level: str) -> None:
    ready = room.ready(
        level, "sh", "-c", "touch started; while :; do sleep 0.1; done # $0 of-the-killed-one", str(room.top)
    )
    starter = f"""
from pathlib import Path, PosixPath
from goalseek.sandbox.supervisor import launch_in_terminal
from goalseek.sandbox.view import Launch
launch_in_terminal({ready!r})"""
    tool = subprocess.Popen([sys.executable, "-c", starter])
    until((room.tree / "started").exists)
    tool.kill()
    tool.wait(timeout=60)
    until(lambda: not running(room, "of-the-killed-one"))


@pytest.mark.elsewhere
@BOTH
def test_semaphores_and_sockets_of_its_own_work_and_a_program_that_is_not_there_says_so(room: Room, level: str) -> None:
    code = (
        "import multiprocessing, socket\n"
        "lock = multiprocessing.Lock()\n"
        "one, two = socket.socketpair()\n"
        "server = socket.socket(socket.AF_UNIX); server.bind('own.socket'); server.listen()\n"
        "socket.socket(socket.AF_UNIX).connect('own.socket')\n"
        "print('works')\n"
    )
    assert room.python(level, code).stdout == b"works\n"
    finished = room.run(level, "no-such-program")
    assert finished.exit_code != 0 and b"no-such-program" in finished.stderr


@pytest.mark.elsewhere
@pytest.mark.needs("bwrap")
def test_a_server_of_its_own_works_and_names_are_looked_up_where_there_is_a_network(room: Room) -> None:
    code = (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname()); print(1)"
    )
    assert room.python("bubblewrap", code).stdout == b"1\n"
    assert room.python("landlock", code).exit_code != 0, "Landlock knows no difference between its own and others"
    assert Path("/etc/resolv.conf").exists()
    assert room.run("bubblewrap", "cat", "/etc/resolv.conf", network=True).exit_code == 0
    assert room.run("bubblewrap", "cat", "/etc/resolv.conf").exit_code != 0
    assert socket.gethostbyname("localhost") in room.prints("bubblewrap", "getent", "hosts", "127.0.0.1")


@pytest.mark.elsewhere
@BOTH
def test_credentials_and_caches_of_the_user_are_found_in_the_throw_away_home(room: Room, level: str) -> None:
    login, cache = room.users_home / ".agent/login.json", room.users_home / ".cache/models"
    for place in (login, cache / "one", room.users_home / ".agent/other"):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("old")
    added = (Mount.in_place(login, writable=True), Mount.in_place(cache))
    script = "cat $HOME/.agent/login.json $HOME/.cache/models/one; echo new > $HOME/.agent/login.json; ls $HOME/.agent"
    assert room.prints(level, "sh", "-c", script, added=added) == "oldoldlogin.json"
    assert login.read_text() == "new\n"
    assert room.run(level, "sh", "-c", "echo new > $HOME/.cache/models/one", added=added).exit_code != 0


@pytest.mark.needs("bwrap")
def test_something_writable_may_hold_what_must_not_be_seen(room: Room, tmp_path: Path) -> None:
    cache = tmp_path / "user-cache"
    (cache / "goalseek").mkdir(parents=True)
    (cache / "goalseek" / "labels").write_text(SECRET)
    (cache / "ccache").mkdir()
    for level in ("landlock", "bubblewrap"):
        how = {"added": (Mount.in_place(cache, writable=True),), "masked": (cache / "goalseek",)}
        assert room.run(level, "cat", str(cache / "goalseek" / "labels"), **how).exit_code != 0
        room.prints(level, "touch", str(cache / "ccache" / level), **how)
        assert (cache / "ccache" / level).exists()


@pytest.mark.elsewhere
def test_the_home_is_elsewhere_where_it_is_the_repository_or_the_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goalseek.sandbox.view.system_folders", lambda: (Path("/usr"), Path("/opt")))

    def seen_at(home: str, top: str) -> Path:
        monkeypatch.setenv("HOME", home)
        return throw_away_home(Path("/scratch/home"), Path(top)).at

    assert seen_at("/home/u", "/home/u/project") == Path("/home/u")
    for home, top in (("/home/u", "/home/u"), ("/", "/srv/p"), ("/opt/app", "/srv/p"), ("/srv/p/in", "/srv/p")):
        assert seen_at(home, top) == SPARE_HOME


def needed(room: Room, command: str | list[str], **environment: str) -> list[Path]:
    found = required_paths([command], {"PATH": "/usr/bin:/bin", **environment}, room.top)
    return [path for path in found if not path.is_relative_to(room.top)]


def test_a_home_folder_is_never_taken_for_an_installation(room: Room) -> None:
    for below in ("bin", ".local/bin"):
        tool = write_program(room.users_home / below / "tool")
        (tool.parent.parent / "lib" / "gcc").mkdir(parents=True)
        assert needed(room, "tool x | 'tool' y", PATH=f"{tool.parent}:/usr/bin:/bin") == [tool]


def test_where_nothing_can_be_looked_at_there_is_no_program(room: Room) -> None:
    """As in a folder on PATH that is another user's, whom a shell was left for by ``su``."""
    cannot = "/" + 300 * "x"
    assert needed(room, "true", PATH=f"{cannot}:/usr/bin", PYTHONPATH=cannot) == []
    assert needed(room, f"true {cannot[1:]}") == []


RUNS = [
    "{tool}",
    "cd x && {tool} y",
    "x=$({tool})",
    'echo "is $({tool})"',
    "echo `{tool}`",
    "A=1 B=2 {tool}",
    "timeout -k 5 10 {tool}",
    "env -i A=1 nice -n 10 {tool}",
    "if true\nthen {tool}\nfi",
    "true < /dev/null\n{tool}",
    "bash -ec 'cd x && {tool}'",
    "python3 -W ignore {tool} --more",
    "uv run python {tool}",
    "true \\\n  x; {tool}",
    ["{tool}", "x"],
    ["sh", "-c", "exec {tool}"],
    ["python3", "{tool}"],
]
MENTIONS = [
    "true {tool}",
    "true --file={tool}",
    "true > {tool}",
    "true < {tool}",
    "true 2>&1 {tool}",
    "A={tool} true",
    "python3 experiment.py {tool}",
    "python3 -m json.tool {tool}",
    "python3 -c 'pass' {tool}",
    "timeout 10 true {tool}",
    "true 'read {tool} first'",
    "true \\\n  {tool}",
    ["true", "{tool}"],
    ["true", "--prompt", "{tool} is what to read"],
    ["sh", "-c", "true {tool}"],
]


@pytest.mark.parametrize("is_executable", [True, False])
def test_a_path_is_shown_where_it_is_run_and_not_where_it_is_mentioned(room: Room, is_executable: bool) -> None:
    (room.top / "experiment.py").write_text("")
    tool = write_program(room.users_home / "tools" / "tool", mode=0o755 if is_executable else 0o644)

    def found(command: str | list[str], word: str = str(tool), **environment: str) -> list[Path]:
        if isinstance(command, str):
            return needed(room, command.replace("{tool}", word), **environment)
        return needed(room, [part.replace("{tool}", word) for part in command], **environment)

    assert [command for command in RUNS if found(command) != [tool]] == []
    assert [command for command in MENTIONS if found(command) != []] == []
    if is_executable:
        interpreter = write_program(tool.with_name("interpreter"))
        tool.write_text("#!/usr/bin/env -S interpreter -x\n")
        by_name = {"word": "tool", "PATH": f"{tool.parent}:/usr/bin:/bin"}
        every = [*RUNS, "it's {tool}", "hyperfine '{tool} x'"]
        assert [command for command in every if found(command, **by_name) != [interpreter, tool]] == []
        assert found("true", **by_name) == []


def test_additions_are_one_line_to_paste() -> None:
    line = as_manifest_line([Path("/a b"), Path('/c"d\\e')])
    assert tomllib.loads(line) == {"sandbox": {"read": ["/a b", '/c"d\\e']}} and "\n" not in line


def test_what_is_the_systems_is_known_by_every_name() -> None:
    names = "/usr/bin/sh /bin/sh /etc/alternatives/cc /etc/shadow /root /etc".split()
    assert [name for name in names if is_system_path(Path(name))] == names[:3]


def running(room: Room, words: str) -> list[int]:
    """The processes with these words, and a path of this room, in their command line."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            line = os.fsdecode((place / "cmdline").read_bytes())
            if words in line and str(room.top.parent) in line:
                found.append(int(place.name))
    return found
