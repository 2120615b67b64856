"""A disk that is really full: a small file system for the repository, or for goalseek's own trees, is filled up.

Filled beforehand but for some pages, by somebody else in the middle of a phase, or by a candidate, which loses its own
measurement, and the run goes on. Then, without such a file system, by system calls that fail.
"""

import contextlib
import errno
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tomli_w
from inside import ON_ANY_DISK, lacks_room_for_git_folder, run_here, start_on_any_disk
from killing import assert_same, assert_sound, climbing
from many import AT_ONCE, assert_sound_at_end, go_on, many
from needs import AS_ROOT
from project import MANIFEST, Project, Projects, answer, home
from red_team.attacks import LEVELS
from skips import levels

pytestmark = pytest.mark.slow
ITERATIONS = 14
AT_ONCE_ITERATIONS = 12
PAGE = 4096
ROOMS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32, 40, 48, 64)


@contextlib.contextmanager
def mounted(place: Path) -> Iterator[Path]:
    """A file system of 64 MiB."""
    place.mkdir(exist_ok=True)
    options = f"size=64m,mode=0755,uid={os.geteuid()},gid={os.getegid()}"
    subprocess.run([*AS_ROOT, "mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], check=True, timeout=120)
    try:
        yield place
    finally:
        subprocess.run([*AS_ROOT, "umount", "--lazy", str(place)], check=True, timeout=120)


@pytest.fixture(params=["repository", "cache"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """A small disk, and where the repository will be: on it, or beside it where the disk has goalseek's trees."""
    is_repository = request.param == "repository"
    with mounted(tmp_path / "disk" if is_repository else home("cache")) as place:
        yield place, (place if is_repository else tmp_path) / "project"


@pytest.fixture
def calm(tmp_path: Path, same_dates: None) -> Project:
    project = climbing(tmp_path / "undisturbed", ITERATIONS)
    project.climb("iterate", "--forever")
    return project


def fill(disk: Path, pages: int) -> Path:
    """Takes all of the disk but so many pages."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(PAGE))
        except OSError:
            file.truncate(max(file.tell() // PAGE - pages, 0) * PAGE)
    return filler


@pytest.fixture
def iterate(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    """Runs ``iterate`` in this process; gives its exit code and what it said.

    It starts on a disk that is nearly full, which it would else refuse: what is wanted is a disk that fills up later.
    """
    start_on_any_disk(monkeypatch)

    def call(project: Project, *arguments: str) -> tuple[int, str]:
        code = run_here(["-C", str(project.folder), "iterate", *arguments])
        return code, capsys.readouterr().err

    return call


@pytest.mark.needs("mount")
def test_whatever_room_is_left(disk: tuple[Path, Path], calm: Project, iterate: Callable[..., tuple[int, str]]) -> None:
    place, top = disk
    project, stopped = climbing(top, ITERATIONS), []
    users = project.users()
    for pages in ROOMS:
        filler = fill(place, pages)
        before = len(project.iterations())
        code, said = iterate(project, "-n", "2")
        filler.unlink()
        assert (code, "the disk is full" in said) in ((0, False), (3, True)), (pages, said)
        assert len(project.iterations()) - before <= 3
        if code:
            stopped.append(pages)
            project.git("fsck", "--strict", "--no-dangling")
        if pages % 4 == 0:
            assert iterate(project, "-n", "1")[0] == 0
    assert stopped[0] == 0 and len(stopped) >= 3
    assert iterate(project, "--forever")[0] == 0
    assert_same(project, calm)
    assert project.users() == users
    assert_sound(project)


@pytest.mark.needs("mount")
def test_a_try_on_a_full_disk_is_refused_in_words_or_measured_and_none_is_lost(disk: tuple[Path, Path]) -> None:
    place, top = disk
    project = Project.make(top, manifest=tomli_w.dumps(MANIFEST))
    project.check("baseline")
    for number, pages in enumerate((0, 1, 2, 4, 8, 16, 64), start=2):
        project.write({"answer.json": answer(number)})
        before, filler = project.users(), fill(place, pages)
        ended = project.run("try", "--wait", "60s")
        filler.unlink()
        assert ended.exit_code == 0 or "the disk is full" in ended.stderr or "of disk" in ended.stderr, (pages, ended)
        assert project.users() == before
        if ended.exit_code:
            again = project.run("wait") if "is not finished" in ended.stderr else project.run("try")
            assert again.exit_code == 0, (pages, ended, again)
    records = project.iterations()
    assert [one["metric"]["value"] for one in records[1:]] == [*range(2, 9)], "each of them once"
    assert_sound(project)


@pytest.mark.needs("mount")
@pytest.mark.parametrize("phase", ["apply", "verify"])
def test_filled_by_somebody_in_the_middle_of_a_phase(
    disk: tuple[Path, Path], calm: Project, tmp_path: Path, iterate: Callable[..., tuple[int, str]], phase: str
) -> None:
    place, top = disk
    project = climbing(top, ITERATIONS)
    assert iterate(project, "-n", "1")[0] == 0
    script = home(f"during-{phase}")
    stops = 0
    for _ in range(4):
        before = project.records()
        script.write_text(f"cat /dev/zero > '{place}/filler' 2> '{tmp_path}/said'\n")
        code, said = iterate(project, "-n", "2")
        script.unlink()
        was_filled = (place / "filler").exists()  # not every move comes as far as a measurement
        (place / "filler").unlink(missing_ok=True)
        assert (code, "the disk is full" in said) == ((3, True) if was_filled else (0, False)), said
        assert project.records()[: len(before)] == before
        if was_filled:
            state = project.state()
            assert (state["status"], state["stop_reason"]) == ("blocked", "disk")
        stops += was_filled
        assert iterate(project, "-n", "1")[0] == 0
        project.git("fsck", "--strict", "--no-dangling")
    assert stops >= 2
    assert iterate(project, "--forever")[0] == 0
    assert_same(project, calm)
    assert_sound(project)


@pytest.mark.needs("mount")
def test_a_git_folder_for_which_there_is_no_room_is_a_full_disk(tmp_path: Path) -> None:
    refused = 0
    with mounted(tmp_path / "disk") as place:
        for pages in ROOMS:
            filler = fill(place, pages)
            refused += lacks_room_for_git_folder(place)
            filler.unlink()
            shutil.rmtree(place / "git")
    assert refused


@pytest.mark.needs("mount")
def test_four_at_once_go_on_when_there_is_room_again(disk: tuple[Path, Path]) -> None:
    place, top = disk
    project, ends = many(top, AT_ONCE_ITERATIONS), []
    project.climb("iterate", "-n", "1", *AT_ONCE)
    for pages in ROOMS[::3]:
        filler = fill(place, pages)
        started = project.start("iterate", "-n", "3", *AT_ONCE, program=("-c", ON_ANY_DISK))
        said = started.communicate(timeout=120)[1]
        filler.unlink()
        assert (started.returncode, "the disk is full" in said) in ((0, False), (3, True)), (pages, said)
        ends.append(started.returncode)
    assert ends[0] == 3
    go_on(project)
    assert_sound_at_end(project, AT_ONCE_ITERATIONS)


FILL = 'dd if=/dev/zero of="{place}" bs=1M count=100 || echo FILLED'
FILLED = {
    "the tree": FILL.format(place="filler"),
    "a new folder of the tree": "mkdir -p new/er; " + FILL.format(place="new/er/filler"),
    "the temporary folder": FILL.format(place="$TMPDIR/filler"),
    "the run folder": FILL.format(place="$GOALSEEK_RUN_DIR/filler"),
    "an output": FILL.format(place="out/filler.json"),
    "an output with nothing in it": "truncate -s 1G out/filler.json && echo FILLED",
}


@pytest.fixture
def cache() -> Iterator[Path]:
    """A small disk where goalseek's trees are."""
    with mounted(home("cache")) as place:
        yield place


def candidate(score: int, also: str) -> str:
    return f"mkdir -p out; echo '{{\"score\": {score}}}' > out/m.json; {also}\n"


@pytest.mark.needs("mount")
@pytest.mark.parametrize("mode", levels(*LEVELS))
def test_the_run_goes_on_after_a_candidate_that_filled_the_disk(make_project: Projects, cache: Path, mode: str) -> None:
    judge = 'cp out/m.json "$GOALSEEK_RUN_DIR/metrics.json"\n'
    project = make_project(files={"answer.sh": candidate(1, "true"), "hidden/judge.sh": judge})
    tries = dict(FILLED)
    if mode != "none":  # where HOME is the user's, it is on another disk
        tries["HOME"] = FILL.format(place="$HOME/filler")
    project.set_manifest(
        {
            "scope": {"writable": ["answer.sh"], "hidden": ["hidden/**"]},
            "verify": [
                {"name": "run", "run": "sh answer.sh", "sees": "candidate", "outputs": ["out/*.json"]},
                {"name": "judge", "run": "sh hidden/judge.sh", "sees": "hidden"},
            ],
            "limits": {"stagnation": "none", "failures": "none"},
            "sandbox": {"mode": mode},
        }
    )
    project.commit("the manifest")
    texts = [*(candidate(0, fill) for fill in tries.values()), candidate(2, "true")]
    project.set_moves(*({"files": {"answer.sh": text}} for text in texts))
    records = project.climb("iterate", "-n", str(len(texts)))
    assert {record["isolation"]["sandbox"] for record in records} == {mode}
    assert records[-1]["outcome"] == "kept"
    for number, name in enumerate(tries, start=1):
        log = (project.run_folder(number) / "verifier.log").read_text()
        assert "FILLED\n" in log, f"the control: {name} was filled"
        assert records[number]["reason"] in ("worse", "verify_failed", "no_metric"), (name, records[number])
    project.check("audit")


@pytest.mark.parametrize("call", ["fsync", "replace", "mkdir"])
@pytest.mark.parametrize("after", range(28))  # two iterations make no more than 28 folders
def test_where_a_call_fails_from_its_nth_use_on_it_stops_with_3_and_goes_on_when_there_is_room(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], call: str, after: int
) -> None:
    project.set_moves(answer(2), answer(0), answer(3))
    project.climb("iterate", "-n", "1")
    real = getattr(os, call)
    used = 0

    def failing(*arguments: object, **more: object) -> object:
        nonlocal used
        used += 1
        if used > after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*arguments, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing)
        patch.setattr(Path, "replace", lambda self, target: Path(os.replace(self, target) or target))
        patch.setattr(Path, "mkdir", _mkdir)
        code = run_here(["-C", str(project.folder), "iterate", "-n", "2"])
    told = capsys.readouterr().err
    assert code in (0, 3) and (code == 0) == ("disk is full" not in told), told
    records = project.climb("iterate", "-n", "3" if code else "1")
    assert [record["iteration"] for record in records[:4]] == [0, 1, 2, 3]
    assert [record["metric"]["value"] for record in records[:4]] == [1, 2, 0, 3]


def _mkdir(path: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
    if exist_ok and path.is_dir():
        return
    if parents:
        for above in reversed(path.parents):
            if not above.exists():
                os.mkdir(above, mode)
    os.mkdir(path, mode)
