"""What a program with the network, a hostile candidate on a worker, and other drivers get of a cluster.

Each attack is stopped only because the same one succeeds elsewhere: with the cluster's key, or without a sandbox.
"""

import asyncio
import base64
import contextlib
import itertools
import json
import os
import pickle
import shlex
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from distributed import Client
from distributed.comm import tcp
from distributed.security import Security
from inside import run_here
from project import FILES, Project, Projects, answer, held_out, home, living, until
from skips import levels

from goalseek.cluster import worker as worker_side
from goalseek.cluster.members import Members
from goalseek.cluster.worker import MeasuringPlugin, Tenant
from goalseek.disk import closing
from goalseek.errors import GoalseekError
from goalseek.evaluation import measurements
from goalseek.locks import open_lock, try_lock
from goalseek.manifest.loading import load
from goalseek.manifest.tables import Parallel
from goalseek.measurement.measure import MeasurementSpec
from goalseek.phase_values import Evidence
from goalseek.project import project as project_module
from goalseek.sandbox.reaper import _remove_folder
from goalseek.sandbox.supervisor import PROGRAMS_LOCK
from goalseek.values import StopReason, VerifierRun

HIDDEN = {"hidden/tracked.bin": os.urandom(3000), "labels.bin": os.urandom(3000)}  # no git makes them shorter
ATTACK = """\
import base64, json, os, sys
wanted, root, out = [base64.b64decode(word) for word in sys.argv[1].split(",")], *sys.argv[2:]
loot, pids = [], [name for name in os.listdir("/proc") if name.isdigit() and name != str(os.getpid())]
def look(path):
    try:
        with open(path, "rb") as file:
            content = file.read(1 << 24)
    except OSError:
        return b""
    loot.extend(["file " + path] * any(word in content for word in wanted))
    return content
for above, _, names in os.walk(root):
    for name in names:
        look(os.path.join(above, name))
for pid in pids:
    for name in ("environ", "cmdline"):
        look(f"/proc/{pid}/{name}")
    if b"goalseek.cluster.member" in look(f"/proc/{pid}/cmdline"):
        try:
            rows = [row.split() for row in open(f"/proc/{pid}/maps") if " rw-p " in row and "[stack]" not in row]
            with open(f"/proc/{pid}/mem", "rb", 0) as memory:
                for span in (row[0].split("-") for row in rows):
                    memory.seek(int(span[0], 16))
                    if b"PRIVATE KEY---" in memory.read(int(span[1], 16) - int(span[0], 16)):
                        loot.append("key in memory")
                        break
        except OSError:
            pass
print("LOOT " + json.dumps(loot), flush=True)
os.makedirs(out, exist_ok=True)
"""
JUDGE = """\
cp out/answer.json "$GOALSEEK_RUN_DIR/metrics.json"
find "$1" -path "*hidden*" -printf "MODE %m %p\\n" 2>&1 || true
"""


def play(make_project: Projects, mode: str, script: str = ATTACK, **tables: Any) -> Project:
    """A project whose agent and candidate attack with the network, and whose judge alone sees the hidden files."""
    files = {**FILES, "attack.py": script, "hidden/judge.sh": JUDGE, "hidden/tracked.bin": HIDDEN["hidden/tracked.bin"]}
    project = make_project(files=files)
    outside = project.top.parent / "labels"
    outside.mkdir()
    (outside / "labels.bin").write_bytes(HIDDEN["labels.bin"])
    wanted = ",".join(base64.b64encode(content[100:200]).decode() for content in HIDDEN.values())
    words = ["attack.py", wanted, str(home("cache"))]
    attack = shlex.join([sys.executable, *words, "out"])
    run = {"name": "run", "run": f"{attack}; cp answer.json out", "sees": "candidate", "outputs": ["out/**"]}
    judge = {"name": "judge", "run": f"sh hidden/judge.sh {home('cache')}", "sees": "hidden"}
    scope = {"writable": ["answer.json"], "hidden": ["hidden/**"], "hidden_from": str(outside)}
    verify = {"verify": [{**run, "network": True}, judge], "scope": scope}
    sandbox = {"mode": mode, "read": [str(home("cache"))]}  # what they are after is masked in it
    agent = f"import sys\nsys.argv = {[*words, '/tmp']}\n{script}\nopen('answer.json', 'w').write({answer(2)!r})\n"
    project.agent.write_text(agent)
    provider = {"name": "command", "command": [sys.executable, str(project.agent)]}
    project.set_manifest({"provider": provider, "sandbox": sandbox, **verify, **tables})
    project.commit("a field of attack")
    return project


def ports_of(pids: Any) -> set[int]:
    """The TCP ports on which these processes listen."""
    inodes = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            inodes |= {os.readlink(path) for path in Path("/proc", str(pid), "fd").iterdir()}
    rows = [row.split() for name in ("tcp", "tcp6") for row in Path("/proc/net", name).read_text().splitlines()[1:]]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in inodes}


def reply(port: int, security: ssl.SSLContext | None, said: bytes) -> bytes:
    """What a port answers; nothing if it refuses."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 10) as plain:
        plain.settimeout(10)
        with security.wrap_socket(plain) if security else plain as connection:
            connection.sendall(said)
            return connection.recv(1000)
    return b""


@contextlib.contextmanager
def members(cluster: str) -> Iterator[Members]:
    started = Members(Parallel(cluster=cluster))
    try:
        yield started
    finally:
        started.close()


@pytest.mark.slow
def test_nothing_of_a_cluster_answers_without_its_certificate(isolated: Path) -> None:
    with members("local:1") as cluster:
        until(lambda: (cluster.keep(), len(ports_of(living(isolated))) >= 2)[1])
        scheduler = int(cluster.address.rpartition(":")[2])

        async def run_there(security: Security, path: Path) -> None:
            async with Client(cluster.address, security=security, asynchronous=True, timeout=3) as client:
                await client.wait_for_workers(1, timeout=30)
                await client.run(os.mkdir, str(path))
                await client.run_on_scheduler(os.mkdir, f"{path}-too")
                (worker,) = (await client.scheduler.identity())["workers"].values()
                dask_folders.append(Path(worker["local_directory"]))

        dask_folders = list[Path]()
        asyncio.run(run_there(cluster.security, home("with-the-key")))
        assert home("with-the-key").is_dir() and home("with-the-key-too").is_dir()
        with pytest.raises(OSError, match=r"Timed out|TLS certificate does not match|SSL"):
            asyncio.run(run_there(Security.temporary(), home("with-another")))
        assert not home("with-another").exists()
        assert dask_folders[0].parents[1].stat().st_mode & 0o777 == 0o700, "the worker imports from its own folder"

        ports = ports_of(living(isolated))
        assert scheduler in ports and len(ports) == 2, "one of the scheduler and one of the worker, and no page"
        nobody = ssl._create_unverified_context()
        stranger = ssl._create_unverified_context()
        other, files = Security.temporary(), [home("cert.pem"), home("key.pem")]
        for file, text in zip(files, (other.tls_client_cert, other.tls_client_key), strict=True):
            file.write_text(text)
        stranger.load_cert_chain(*map(str, files))
        for port, security in itertools.product(ports, (None, nobody, stranger)):
            assert reply(port, security, b"GET /sitemap.json HTTP/1.1\r\nHost: localhost\r\n\r\n") == b""
        ours = cluster.security.get_connection_args("client")["ssl_context"]
        assert reply(scheduler, ours, b"\0" * 8), "with the certificate it does"


@pytest.mark.slow
@pytest.mark.parametrize("mode", levels("bubblewrap", "landlock", "none"))
def test_agent_and_candidate_get_nothing_of_a_worker(mode: str, make_project: Projects, isolated: Path) -> None:
    project = play(make_project, mode, parallel={"cluster": "local:1"})
    project.check("iterate", "-n", "1")
    _, record = project.iterations()
    assert record["outcome"] == "kept" and record["runs"][0]["host"] == os.uname().nodename
    folder = project.run_folder(1)
    printed = (folder / "verifier.log").read_text()
    said = {"candidate": printed, "agent": (folder / "provider_output.md").read_text()}
    loot = {who: json.loads(text.split("LOOT ")[1].splitlines()[0]) for who, text in said.items()}
    if mode == "none":
        assert any("hidden/labels.bin" in got for got in loot["candidate"]), "there it can"
        rows = [row.split()[1:] for row in printed.splitlines() if row.startswith("MODE ")]
        modes = {Path(path).name: mode for mode, path in rows if "/cluster/" in path and "/hidden/" in path}
        assert modes["labels.bin"] == "600"
        assert "install bubblewrap" in project.check("doctor", "--quick")
    else:
        assert loot == {"candidate": [], "agent": []}
    assert not living(isolated) and not [*home("cache", "goalseek", "cluster").iterdir()]


@pytest.mark.slow
def test_the_secret_stays_here_and_hidden_files_go_to_workers_only(
    make_project: Projects, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, sent = (
        play(
            make_project, "none", script="import os; os.makedirs('out', exist_ok=True)", parallel={"cluster": "local:1"}
        ),
        [],
    )
    write = tcp.TCP.write

    async def write_and_tell(self: Any, message: Any, *words: Any, **more: Any) -> Any:
        sent.append((self.peer_address, pickle.dumps([str(message), _bytes_in(message)])))
        return await write(self, message, *words, **more)

    monkeypatch.setattr(tcp.TCP, "write", write_and_tell)
    monkeypatch.chdir(project.top)
    assert run_here(["iterate", "-n", "1"]) == 0
    secret = (project.top / ".git/goalseek/demo/secret").read_bytes()
    assert not [peer for peer, text in sent if secret in text or secret.hex().encode() in text]
    scheduler, *_ = [peer for peer, text in sent if b"register-client" in text]
    for content in HIDDEN.values():
        peers = {peer for peer, text in sent if content[1000:1500] in text}
        assert peers and scheduler not in peers


def _bytes_in(message: Any) -> list[bytes]:
    """All that is in a message, in what it has pickled too."""
    if isinstance(message, dict):
        return [found for value in message.values() for found in _bytes_in(value)]
    if isinstance(message, list | tuple | set):
        return [found for value in message for found in _bytes_in(value)]
    frames = getattr(message, "frames", None) or [getattr(message, "data", message)]
    return [bytes(frame) for frame in frames if isinstance(frame, bytes | bytearray | memoryview)]


@pytest.mark.slow
@pytest.mark.parametrize("killed", [("worker",), ("driver",), ("worker", "driver")])
def test_no_hidden_file_is_left_by_a_kill(
    killed: tuple[str, ...], make_project: Projects, isolated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # Dask's empty folders stay
    waits = f"import os, time\nopen({str(home('at-work'))!r}, 'w').close()\ntime.sleep(60)"
    project = play(make_project, "none", script=waits, parallel={"cluster": "local:1"})
    climb = project.start_until(home("at-work"), "iterate", "-n", "1")
    workers = [pid for pid, line in living(isolated).items() if "goalseek.cluster.member" in line]
    left = home("cache", "goalseek", "cluster")
    assert [*left.glob("*/hidden/labels.bin")]
    for pid in ({"worker": workers, "driver": [climb.pid]}[name] for name in killed):
        for number in pid:
            os.kill(number, signal.SIGKILL)
    gone = {*left.iterdir()}
    until(lambda: not gone & {*left.iterdir()})
    climb.kill()
    climb.communicate(timeout=60)
    until(lambda: not living(isolated))
    assert not [*left.iterdir()]


def test_closing_a_driver_waits_for_no_other_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    began, end = threading.Event(), threading.Event()

    def measure(tenant: Tenant, *values: object) -> tuple[Evidence, dict[str, bytes]]:
        began.set()
        assert end.wait(60)
        return Evidence(), {}

    monkeypatch.setattr(Tenant, "measure", measure)

    async def play() -> None:
        plugin = MeasuringPlugin()
        plugin.setup(SimpleNamespace(handlers={}, security=Security()))  # type: ignore[arg-type]
        for name, slot in (("one", 1), ("two", 0)):
            assert await asyncio.to_thread(plugin.do_open, name, "", "sha1", slot) == 1, "the slot is the worker's"
            plugin._tenants[name].verifiers["digest"] = None  # type: ignore[assignment]
        folders = [plugin._tenants[name].home for name in ("one", "two")]
        spec = MeasurementSpec("tree", 1, 1)
        running = asyncio.create_task(asyncio.to_thread(plugin.measure, "key", "one", "digest", spec, Evidence()))
        await asyncio.to_thread(began.wait, 60)
        await asyncio.wait_for(asyncio.to_thread(plugin.do_close, "two"), 60)
        assert [folder.exists() for folder in folders] == [True, False]
        closing = asyncio.create_task(asyncio.to_thread(plugin.do_close, "one"))
        end.set()
        await running
        await closing
        assert not folders[0].exists()
        with pytest.raises(RuntimeError, match="its driver is gone"):
            plugin.measure("key", "one", "digest", spec, Evidence())
        plugin.teardown(SimpleNamespace())  # type: ignore[arg-type]

    asyncio.run(play())


def test_only_the_folder_of_a_worker_that_is_gone_is_removed_by_another(isolated: Path) -> None:
    homes = home("cache", "goalseek", "cluster")
    for name in ("young", "gone", "made-again", "at-work"):
        (homes / name / "hidden").mkdir(parents=True)
        if name != "made-again":
            (homes / name / PROGRAMS_LOCK).touch()
        if name != "young":
            os.utime(homes / name, (1, 1))
    with closing(open_lock(homes / "at-work" / PROGRAMS_LOCK)) as lock:
        assert try_lock(lock)
        worker_side._remove_left(homes)
    assert {path.name for path in homes.iterdir()} == {"young", "at-work"}


def test_what_returns_from_a_run_folder_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def add(verifier: object, spec: object, evidence: Evidence, folder: Path) -> Evidence:
        (folder / "verifier.log").write_bytes(b"printed\n")
        (folder / "outputs").mkdir()
        for number in range(100):
            (folder / "outputs" / f"empty-{number}").touch()
        os.truncate(os.open(folder / "outputs" / "large", os.O_CREAT | os.O_RDWR), 2**40)
        (folder / "outputs" / os.fsdecode(b"not\xfftext")).touch()
        return Evidence((VerifierRun("candidate", 1.0, 1, 1.0),))

    monkeypatch.setattr(worker_side, "add_measurement", add)
    monkeypatch.setattr(worker_side, "_SENT_BYTES", 50 * 1024)
    monkeypatch.setattr("goalseek.measurement.lane.Lane.bench", lambda *values: None)
    tenant = Tenant(tmp_path / "tenant", "", "sha1", 0, lambda: None)
    try:
        fields: Any = dict.fromkeys(worker_side.Verifier.__struct_fields__)
        pinned: Any = (worker_side.Verifier(**fields), None, "a")
        _, files = tenant.measure(pinned, MeasurementSpec("tree", 1, 1), Evidence())
    finally:
        tenant.close()
    assert len(files) == 49 and b"\n[54 files left on the worker: more than 0 MiB]" in files["verifier.log"]
    assert not tenant.home.exists()


def test_a_tenants_folder_goes_however_deep_and_closed_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "tenant"
    (folder / "closed" / "inner").mkdir(parents=True)
    (folder / "closed" / "inner" / "file").touch()
    (tmp_path / "kept").mkdir()
    (folder / "closed" / "link").symlink_to(tmp_path / "kept")
    os.mkfifo(folder / "closed" / "pipe")
    deep = os.open(folder, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d" * 20, dir_fd=deep)
        inner = os.open("d" * 20, os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = inner
    os.close(deep)
    for closed in (folder / "closed" / "inner", folder / "closed", folder):
        closed.chmod(0)
    _remove_folder(str(folder))
    assert not folder.exists() and (tmp_path / "kept").is_dir()


@pytest.mark.parametrize("host", ["-oProxyCommand=touch${IFS}x", "a,-v", "a b", "a;id", "$(id)", "`id`", "a'b", "a,,b"])
def test_a_host_is_no_option_and_no_command(host: str, project: Project) -> None:
    project.set_manifest({"parallel": {"cluster": f"ssh:{host}"}})
    with pytest.raises(GoalseekError, match="ssh:HOST,HOST"):
        load(project.manifest)


def test_ssh_gets_hosts_after_its_options_and_one_quoted_program(monkeypatch: pytest.MonkeyPatch) -> None:
    program = home("bin", "ssh")
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nprintf "%s\\0" "$@" > {shlex.quote(str(home("words")))}.new\nmv words.new words\n')
    program.chmod(0o755)
    monkeypatch.chdir(home())
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    python = home("it's; touch bad $(touch worse)")
    python.write_text('#!/bin/sh\nprintf "%s " "$@"\n')
    python.chmod(0o755)
    for name in (f"~/{python.name}", str(python)):
        cluster = Members(Parallel(cluster="ssh:gpu1", python=name))
        worker = cluster.workers[0]
        worker.keep({}, cluster._all[0])
        until(home("words").exists)
        *_, end, host, command, _ = home("words").read_text().split("\0")
        cluster.close()
        home("words").unlink()
        assert (end, host) == ("--", "gpu1")
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
        assert done.stdout == "-m goalseek.cluster.member ", done
    assert not home("bad").exists() and not home("worse").exists()


@pytest.mark.needs("bwrap")
def test_no_program_sees_the_key_of_the_cluster(project: Project) -> None:
    folder = home("dask")
    folder.mkdir()
    (folder / "key.pem").write_text("PRIVATE KEY")
    (folder / "notes").write_text("notes")
    project.write({"certs/key.pem": "PRIVATE KEY"})
    tls = {"ca": "~/dask/ca.pem", "cert": "~/dask/cert.pem"}

    def set_up(key: str, read: str) -> None:
        parallel = {"cluster": "tls://localhost:8786", "tls": {**tls, "key": key}}
        own = {"parallel": parallel} if key else {}
        sandbox = {"mode": "bubblewrap", "read": [read]}
        project.set_manifest({**own, "sandbox": sandbox, "verify": VERIFY, "scope": {"writable": ["answer.json"]}})

    set_up("", "~/dask")
    project.commit("with a key in the repository")
    project.check("baseline")
    set_up("~/dask/key.pem", "~/dask")
    for who in ("agent", "verify"):
        seen = project.run("exec", "--as", who, "--", "sh", "-c", f"cat {folder}/notes {folder}/key.pem")
        assert seen.stdout.startswith("notes") and "PRIVATE" not in seen.stdout, seen
        assert "PRIVATE" in project.check("exec", "--as", who, "--", "cat", "certs/key.pem"), "a file as another"
    set_up("certs/key.pem", "~/dask")
    for who in ("agent", "verify"):
        assert "PRIVATE" not in project.run("exec", "--as", who, "--", "cat", "certs/key.pem").stdout
    set_up("~/dask/key.pem", "~/dask/key.pem")
    assert "programs must not see" in project.fail(2, "exec", "--as", "verify", "--", "true")


VERIFY = [{"name": "judge", "run": 'cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"', "sees": "candidate"}]


def test_a_look_at_the_holdout_that_the_cluster_lost_is_made_again(
    make_project: Projects, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(manifest=held_out("sh hidden/judge.sh", when="kept"))
    project.set_moves(answer(2), answer(1))
    monkeypatch.chdir(project.top)

    def looks() -> list[tuple[str, str]]:
        return [(row["of"], row["reason"]) for row in project.records() if row["kind"] == "holdout"]

    with monkeypatch.context() as lost:
        error = GoalseekError("lost 4 times", "", StopReason.CLUSTER)
        lost.setattr(measurements, "measure_in_turn", lambda *values: (_ for _ in ()).throw(error))
        assert run_here(["iterate", "-n", "1"]) == 3
    assert looks() == [("baseline", "begun")]
    project.check("iterate", "-n", "1")
    assert [look for look in looks() if look[1] != "begun"] == [("baseline", "measured"), ("best", "measured")]


@pytest.mark.parametrize(
    ("host", "portable"), [("elsewhere", False), ("elsewhere", True), (os.uname().nodename, False)]
)
def test_a_comparison_that_was_begun_on_another_host_begins_again_here(
    host: str, portable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project_module, "add_measurement", lambda verifier, spec, evidence, folder: evidence)
    standing = SimpleNamespace(machine=None, baseline=None)
    verifier: Any = SimpleNamespace(manifest=SimpleNamespace(metric=SimpleNamespace(portable=portable)))
    begun = Evidence((VerifierRun("candidate", 1.0, 1, 1.0, host=host),))
    here: Any = SimpleNamespace(cluster=None, standing=standing)
    made = project_module.Project.measure(here, verifier, MeasurementSpec("tree", 2, 1), begun, home())
    assert made == (Evidence() if host == "elsewhere" and not portable else begun)


@pytest.mark.slow
def test_a_cluster_that_the_manifest_asks_for_in_mid_climb_is_for_the_next_command(project: Project) -> None:
    moved = project.manifest.with_suffix(".new")
    project.set_manifest({"parallel": {"cluster": "local:1"}})
    project.manifest.rename(moved)
    project.set_manifest({})
    project.set_moves({"files": {"answer.json": answer(2)}}, answer(3))
    judge = project.folder / "hidden/judge.sh"
    judge.write_text(f"{judge.read_text()}if grep -q 2, answer.json; then cp {moved} {project.manifest}; fi\n")
    project.commit("a judge that edits the manifest")
    project.check("iterate", "-n", "2")
    assert [row["runs"][0].get("host") for row in project.iterations()] == [None, None, None]
    project.set_moves(answer(2), answer(3), answer(4))
    project.check("iterate", "-n", "1")
    assert project.iterations()[-1]["runs"][0]["host"] == os.uname().nodename
