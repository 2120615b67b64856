"""What a cluster refuses, in words and before anything is measured, and what it shows of workers that it does not use."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from clusters import (
    Joined,
    Sshd,
    cluster_rows,
    end_processes,
    environment,
    free_port,
    left_on_workers,
    make_certificates,
)
from project import Project, answer, home, living, until
from shown import Shown

from goalseek._version import __version__
from goalseek.manifest.loading import load

OLD_GIT = """\
case " $* " in *" version "*) echo git version 2.30.2; exit;; esac
PATH=${PATH#*:}
exec git "$@"
"""


def set_cluster(project: Project, parallel: Mapping[str, Any], **tables: Any) -> None:
    project.set_moves(*map(answer, range(2, 60)))
    project.set_manifest({"parallel": parallel, **tables})
    project.commit()


def refusal(project: Project, parallel: Mapping[str, Any], code: int = 3) -> str:
    """What ``iterate`` says, which measured nothing."""
    set_cluster(project, parallel)
    ended = project.run("-q", "iterate")
    assert (ended.exit_code, ended.stdout, project.iterations()) == (code, "", []), ended
    return ended.stderr.partition("goalseek: ")[2]


def faked(folder: str, path: str, text: str, variable: str) -> dict[str, str]:
    """For one worker: a file that its PATH or PYTHONPATH has first."""
    place = home(folder, path)
    place.parent.mkdir(parents=True)
    place.write_text(text)
    place.chmod(0o755)
    return {variable: f"{home(folder)}{os.pathsep}{environment()[variable]}"}


def program(name: str, script: str) -> dict[str, str]:
    return faked(f"{name}-first", name, f"#!/bin/sh\n{script}\n", "PATH")


def module(name: str, text: str) -> dict[str, str]:
    return faked(f"{name}-first", f"{name}.py", text, "PYTHONPATH")


@pytest.mark.parametrize(
    ("parallel", "words"),
    [
        ({"cluster": "tcp://scheduler:8786"}, "runs Python for whoever reaches its port, an agent with the network"),
        ({"cluster": "local:4", "benches": 2}, "parallel.benches: has no use beside cluster: its workers are the"),
        ({"cluster": "tls://scheduler:8786"}, '"tls://scheduler:8786" needs [parallel.tls] with ca, cert and key'),
        ({"cluster": "local:4", "tls": dict.fromkeys(("ca", "cert", "key"), "x")}, "remove [parallel.tls]"),
        ({"cluster": "gpu1"}, 'parallel.cluster: "none", "local:4", "ssh:HOST,HOST", "tls://HOST:PORT" or "file:PATH"'),
    ],
)
def test_a_manifest(project: Project, parallel: dict[str, Any], words: str) -> None:
    assert words in refusal(project, parallel, code=2)


def test_jobs_are_agents_and_workers_are_benches(project: Project) -> None:
    set_cluster(project, {"cluster": "local:2", "agents": 3})
    manifest = load(project.manifest).manifest
    assert manifest.agents_and_benches(5, workers=2) == (5, 2)
    assert manifest.agents_and_benches(None, workers=2) == (3, 2)


def test_no_distributed(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in module("distributed", "raise ImportError").items():
        monkeypatch.setenv(name, value)
    set_cluster(project, {"cluster": "local:2"})
    _, said = project.start("-q", "iterate").communicate(timeout=60)
    message = 'goalseek: parallel.cluster = "local:2": the distributed package is not installed'
    assert said.endswith(f"{message}\n  run: pip install 'goalseek[cluster]'\n") and project.iterations() == []


@pytest.mark.slow
@pytest.mark.needs("openssl")
def test_files_of_a_cluster(project: Project) -> None:
    folder = make_certificates()
    tls = {"ca": "~/dask/cert.pem", "cert": "~/dask/cert.pem", "key": "~/dask/key.pem"}
    for name, text in (("tcp", '{"address": "tcp://127.0.0.1:8786"}'), ("other", "{}"), ("torn", '{"addr')):
        (folder / f"{name}.json").write_text(text)

    def said(cluster: str, **files: str) -> str:
        return refusal(project, {"cluster": cluster, "tls": {**tls, **files}}).splitlines()[0]

    assert said("file:~/none.json") == f"parallel.cluster: {home()}/none.json: No such file or directory"
    assert "~/dask/tcp.json names tcp://127.0.0.1:8786: only tls:// is safe" in said("file:~/dask/tcp.json")
    for name in ("other", "torn"):
        assert said(f"file:~/dask/{name}.json").endswith(f"~/dask/{name}.json is no scheduler file of Dask")
    here = f"tls://127.0.0.1:{free_port()}"
    assert said(here, key="~/none.pem") == f"parallel.cluster: {home()}/none.pem: No such file or directory"
    assert f"{here}: TLS fails" in said(here, key=tls["cert"])
    assert f"no scheduler answers, {here}" in said(here)


@pytest.mark.slow
@pytest.mark.needs("openssl")
def test_certificates_of_another_cluster(project: Project, joined: Joined) -> None:
    subprocess.run(["cp", "-r", str(joined.folder), str(home("theirs"))], check=True, timeout=60)
    make_certificates()  # others, in their place
    own, theirs = joined.parallel["tls"], {name: f"~/theirs/{name}.pem" for name in ("cert", "key")}
    for tls in (own, {**own, **theirs}, {**theirs, "ca": "~/theirs/cert.pem", "cert": own["cert"], "key": own["key"]}):
        said = refusal(project, {"cluster": joined.address, "tls": tls})
        assert f"{joined.address}: TLS fails" in said and "not those of [parallel.tls]" in said
    joined.start_worker("late")
    until(lambda: "CERTIFICATE_VERIFY_FAILED" in joined.log.read_text() or "TLS certificate" in joined.log.read_text())
    set_cluster(project, {"cluster": joined.address, "tls": {**theirs, "ca": "~/theirs/cert.pem"}})
    assert cluster_rows(project)[0]["text"] == f"{joined.address}: no worker is there: measurements wait for one"


@pytest.mark.slow
@pytest.mark.needs("sshd")
def test_a_host_that_ssh_does_not_open(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    sshd = Sshd("gpu1", "gpu2")
    monkeypatch.setenv("PATH", environment()["PATH"])
    python = {"python": sys.executable}
    login = "ssh gpu1 true must succeed without a question, and sshd there allow TCP forwarding"
    make = f"\"python3 -m venv ~/goalseek && ~/goalseek/bin/pip install 'goalseek[cluster]=={__version__}'\""
    try:
        message, hint = refusal(project, {"cluster": "ssh:gpu1,nowhere", **python}).splitlines()
        assert message.startswith("parallel.cluster: nowhere: ssh: Could not resolve hostname nowhere")
        assert hint.strip() == login.replace("gpu1", "nowhere")
        message, hint = refusal(project, {"cluster": "ssh:gpu2", "python": "~/goalseek/bin/python"}).splitlines()
        assert message.endswith("goalseek/bin/python: No such file or directory")
        assert hint.strip() == f'ssh gpu2 {make}; and parallel.python = "~/goalseek/bin/python"'
        (wrong,) = cluster_rows(project)
        assert (wrong["ok"], wrong["remedy"]) == (False, hint.strip())
        (sshd.folder / "user.pub").rename(sshd.folder / "gone")
        message, hint = refusal(project, {"cluster": "ssh:gpu1", **python}).splitlines()
        assert message.endswith("Permission denied (publickey).") and hint.strip() == login
        (sshd.folder / "gone").rename(sshd.folder / "user.pub")
        sshd.close()
        settings = sshd.folder / "sshd_config"
        settings.write_text(f"AllowTcpForwarding no\n{settings.read_text()}")
        sshd.start()
        message, hint = refusal(project, {"cluster": "ssh:gpu2", **python}).splitlines()
        assert "remote port forwarding failed" in message and hint.strip() == login.replace("gpu1", "gpu2")
        (sshd.folder / "known").write_text("")
        message, hint = refusal(project, {"cluster": "ssh:gpu1", **python}).splitlines()
        assert message == "parallel.cluster: gpu1: Host key verification failed."
    finally:
        sshd.close()


@pytest.mark.slow
@pytest.mark.needs("sshd")
def test_a_host_that_is_lost_in_mid_climb_has_a_line_with_the_reason(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    sshd = Sshd("gpu1")
    monkeypatch.setenv("PATH", environment()["PATH"])
    try:
        set_cluster(project, {"cluster": "ssh:gpu1", "python": sys.executable})
        climbing = project.start("-q", "iterate", "-n", "20")
        until(lambda: project.results.exists() and project.iterations())
        (sshd.folder / "user.pub").rename(sshd.folder / "gone")
        for pid, line in living(home()).items():
            if line.startswith("/usr/bin/ssh "):
                os.kill(pid, signal.SIGKILL)
        until(lambda: "gpu1: " in (said := project.check("status")) and "Permission denied (publickey)." in said)
        until(lambda: "waits for the cluster" in project.check("status"))
        assert climbing.poll() is None
        (sshd.folder / "gone").rename(sshd.folder / "user.pub")
        climbing.communicate(timeout=100)
        assert climbing.returncode == 0
        assert [row["iteration"] for row in project.iterations()] == list(range(21))
        assert left_on_workers() == []
    finally:
        sshd.close()


@pytest.mark.slow
@pytest.mark.needs("bwrap", "openssl")
def test_workers_that_are_not_alike(project: Project, joined: Joined) -> None:
    metadata = "Metadata-Version: 2.1\nName: goalseek\nVersion: 0.0.1\n"
    joined.start_worker("w1", **program("bwrap", "exit 1"))
    joined.start_worker("w2", **program("git", OLD_GIT))
    joined.start_worker("w3", **faked("meta", "goalseek-0.0.1.dist-info/METADATA", metadata, "PYTHONPATH"))
    joined.start_worker(
        "w4", **module("sitecustomize", "import sysconfig\nsysconfig.get_python_version = lambda: '3.9'")
    )
    joined.start_worker("w5", before=["bwrap", "--dev-bind", "/", "/", "--tmpfs", str(project.top)])
    joined.start_worker("w6")
    project.write({"data/x": "1", ".gitignore": "data/\n"})
    scope = {"writable": ["answer.json"], "hidden": ["hidden/**"], "share": ["data"]}
    until(lambda: joined.log.read_text().count("Registered to") == 6)
    set_cluster(project, joined.parallel, scope=scope, sandbox={"mode": "bubblewrap"})
    ended = project.run("-q", "iterate")
    assert (ended.exit_code, ended.stdout, project.iterations()) == (3, "", [])
    *lines, hint = ended.stderr.partition("goalseek: parallel.cluster: ")[2].splitlines()
    said = dict(line.split(": ", 1) for line in lines)
    own = subprocess.check_output(["git", "version"], text=True, timeout=60).split()[2].split(".")
    assert said.pop("w1").startswith("it cannot confine programs by bubblewrap, as this machine does: ")
    assert said == {
        "w2": f"it has git 2.30, this machine has {own[0]}.{own[1]}",
        "w3": f"it has goalseek 0.0.1, this machine has {__version__}",
        "w4": f"it has Python 3.9, this machine has {sys.version_info[0]}.{sys.version_info[1]}",
        "w5": f"it does not have {project.top}/data, which scope.share names: it must be at the same path",
    }
    assert hint.strip() == "make them alike, or leave them out: goalseek help cluster"
    assert left_on_workers() == []


@pytest.mark.slow
@pytest.mark.needs("openssl")
def test_a_worker_that_joins_later_is_noted_shown_and_not_used(project: Project, joined: Joined) -> None:
    joined.start_worker("good")
    set_cluster(project, joined.parallel)
    climbing = project.start("iterate", "-n", "58")
    until(lambda: project.results.exists() and project.iterations())
    joined.start_worker("late", **program("git", OLD_GIT))
    line = "late: it has git 2.30"
    with Shown(project.folder, "status", "--watch", columns=120) as shown:
        rows = shown.until(lambda text: line in text)
        assert any(row.startswith("  worker      good: ") for row in rows)
        assert any(row.startswith(f"  worker      {line}") for row in rows)
    assert f"\n  worker     {line}" in project.check("status")
    assert any(text.startswith(line) for text in project.ask("status")["workers"])
    climbing.terminate()
    _, said = climbing.communicate(timeout=60)
    assert said.count(f"a worker of the cluster is not used: {line}") == 1
    assert left_on_workers() == []


@pytest.mark.slow
def test_times_are_measured_by_one_worker_of_a_host_and_slots_differ(project: Project) -> None:
    wall = {"metric": {"source": "wall", "direction": "minimize"}}
    set_cluster(project, {"cluster": "local:2"}, **wall)
    found, *_ = cluster_rows(project)
    assert found["text"].count(": idle: its host has another worker, and times are measured one at a time") == 1
    run = 'echo $GOALSEEK_SLOT; sleep 1; cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"'
    set_cluster(project, {"cluster": "local:2", "agents": 3}, verify=[{"name": "judge", "run": run}])
    project.check("iterate", "-n", "4")
    logs = [path.read_text() for path in project.climb_folder.glob("runs/*/verifier.log")]
    assert {word for log in logs for word in log.split() if word in "01"} == {"0", "1"}


@pytest.mark.slow
@pytest.mark.needs("openssl")
def test_a_worker_of_another_kind_of_machine(project: Project, joined: Joined) -> None:
    odd = module("sitecustomize", "import os\nos.cpu_count = lambda: 1000")
    joined.start_worker("small")
    set_cluster(project, joined.parallel)
    project.check("iterate")
    end_processes([joined.processes.pop("small")])
    joined.start_worker("large", **odd)
    climbing = project.start("-q", "iterate")
    waits = "waits for the cluster: no worker is of the baseline's kind of machine"
    until(lambda: project.results.exists() and waits in project.run("status").stdout)
    until(lambda: "large: not of the baseline's kind of machine: " in project.check("status"))
    joined.start_worker("small")
    assert climbing.communicate(timeout=60) and climbing.returncode == 0
    end_processes([joined.processes.pop("small")])
    metric = {"direction": "maximize", "query": "score", "noise": "none", "portable": True}
    set_cluster(project, joined.parallel, metric=metric)
    project.check("iterate")
    machines = [row["machine"] for row in project.iterations()]
    assert ["1000 processors" in machine for machine in machines] == [False, False, False, True]
