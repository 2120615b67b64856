"""``results.jsonl`` as it is read: from either end, by its index, and from a snapshot that fits it."""

import random
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from msgspec.structs import replace
from records import iteration, run

from goalseek.errors import GoalseekError
from goalseek.ledger.checkpoints import Seal
from goalseek.ledger.results_file import History, Snapshot
from goalseek.ledger.selection import Selection, select_lines
from goalseek.ledger.standing import Standing
from goalseek.values import to_line

BLOCK = 65536
SEAL = Seal(b"a secret")
WORSE = ("reverted", "worse")
TIME = "2026-01-01T00:00:00Z"


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "results.jsonl")


@pytest.mark.parametrize("torn", [b"", b"x", b"x" * BLOCK, b"\0" * (2 * BLOCK + 1)], ids=["whole", "1", "64k", "128k"])
@pytest.mark.parametrize(
    "sizes",
    [(), (0,), (5,), (BLOCK - 1,), (BLOCK,), (3, BLOCK - 5, 7), (1, 0, 0, 2), (9, 3 * BLOCK, 0, BLOCK - 1, 1)],
    ids=str,
)
def test_the_same_complete_lines_from_either_end(history: History, sizes: tuple[int, ...], torn: bytes) -> None:
    lines = [bytes([97 + place]) * size for place, size in enumerate(sizes)]
    history.path.write_bytes(b"".join(line + b"\n" for line in lines) + torn)
    offsets = [sum(size + 1 for size in sizes[:place]) for place in range(len(sizes))]
    found = [(line.offset, line.text) for line in history.forward()]
    assert found == list(zip(offsets, lines, strict=True))
    assert [(line.offset, line.text) for line in history.backward()] == found[::-1]
    for place, offset in enumerate(offsets):
        assert [line.text for line in history.forward(offset)] == lines[place:]


def test_where_there_is_no_file_there_is_nothing(history: History) -> None:
    assert history.size() == 0 and history.iteration(0) is None
    assert not list(history.forward()) and not list(history.backward()) and not list(history.newest())
    assert history.replay(Snapshot()) == Standing() and history.load_snapshot(SEAL) == Snapshot()


ORDERS = [range(30), reversed(range(30)), (0, 4, 1, 3, 2, 5, 7, 6), (0, *range(2, 40), 1, 40, 41), (0, 1, 3, 2, 9, 8)]


@pytest.mark.parametrize("numbers", [*ORDERS, *(random.Random(seed).sample(range(60), 60) for seed in range(2))])
@pytest.mark.parametrize("snapshot", [0, 3, 1000])
def test_an_iteration_is_found_by_its_number_wherever_it_is(
    history: History, numbers: Iterable[int], snapshot: int
) -> None:
    numbers = list(numbers)
    tries = [replace(iteration(place, number, *WORSE), timestamp=TIME) for place, number in enumerate(numbers)]
    records = [run(98), *tries[:2], replace(run(99), began="x" * 3000), *tries[2:]]
    lines = [to_line(record) + "\n" for record in records]
    history.path.write_text("".join(lines[:snapshot]))
    history.save_snapshot(history.replay(Snapshot()), SEAL)
    history.path.write_text("".join(lines) + '{"kind": "iteration", "iteration": 61')
    for number in range(-1, 62):
        found = history.iteration(number)
        assert (found.iteration if found else None) == (number if number in numbers else None)
        since = [known for known in numbers if known >= number]
        for last in (None, 3, 99):
            selected = select_lines(history, Selection(iteration=max(number, 0), last=last))
            assert [summary.iteration for _, summary in selected] == since[-(last or 99) :], number


def test_a_line_that_is_no_record_is_named_by_its_place(history: History) -> None:
    first = to_line(run(0))
    history.path.write_text(f"{first}\n{{no record}}\n")
    with pytest.raises(GoalseekError, match=rf"results\.jsonl, at byte {len(first) + 1}: ") as raised:
        list(history.records())
    assert (raised.value.exit_code, raised.value.stop_reason) == (3, "tampered")


def in_snapshot(change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    def act(path: Path) -> None:
        snapshot = path.with_name("standing.json")
        snapshot.write_bytes(change(snapshot.read_bytes()))

    return act


@pytest.fixture
def remembered(history: History) -> History:
    """Three records of which two are in the snapshot."""
    records = [run(0), iteration(1, 0, "baseline", "measured"), iteration(2, 1, "kept", "better")]
    history.path.write_text("".join(to_line(record) + "\n" for record in records[:2]))
    history.save_snapshot(history.replay(Snapshot()), SEAL)
    with history.path.open("a") as file:
        file.write(to_line(records[2]) + "\n")
    return history


def test_a_snapshot_is_what_the_records_before_its_end_add_up_to(remembered: History) -> None:
    snapshot = remembered.load_snapshot(SEAL)
    (rest,) = remembered.forward(snapshot.end)
    first, second, _ = remembered.records()
    assert snapshot.standing == Standing().after(first).after(second)
    assert remembered.parsed(rest).seq == 2
    assert remembered.replay(snapshot) == remembered.replay(Snapshot()) != snapshot.standing


@pytest.mark.parametrize(
    "change",
    [
        in_snapshot(lambda raw: b""),
        in_snapshot(lambda raw: b"[]\n[]\n"),
        in_snapshot(lambda raw: b"[" * 100_000),
        in_snapshot(lambda raw: b'{"offset": 0}\n{}\n'),
        in_snapshot(lambda raw: b"\xff\n\xff\n"),
        in_snapshot(lambda raw: raw.replace(b'"keeps":0', b'"keeps":7')),
        lambda path: path.with_name("standing.json").unlink(),
        lambda path: path.write_text(path.read_text().replace('"baseline"', '"baselinE"')),
        lambda path: path.write_text(path.read_text().split("\n")[0] + "\n"),
        lambda path: path.write_bytes(b""),
        lambda path: path.unlink(),
    ],
)
def test_one_that_does_not_fit_is_not_believed(remembered: History, change: Callable[[Path], object]) -> None:
    assert remembered.load_snapshot(Seal(b"another")) == Snapshot() != remembered.load_snapshot(SEAL)
    change(remembered.path)
    assert remembered.load_snapshot(SEAL) == Snapshot()


@pytest.fixture
def indexed(history: History) -> History:
    """40 records, of which 30 are in the stored index; two iterations measured the same tree."""
    records = [replace(iteration(place, place, *WORSE), timestamp=TIME) for place in range(40)]
    records[7] = replace(records[7], tree_hash="tree3", digests={"ruler": "ruler3"})
    lines = [to_line(record) + "\n" for record in records]
    history.path.write_text("".join(lines[:30]))
    history.save_snapshot(Standing(), SEAL)
    history.path.write_text("".join(lines))
    return History(history.path)


def cut_first_line(path: Path) -> None:
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))


@pytest.mark.parametrize(
    "change",
    [
        lambda path: None,
        lambda path: path.with_name("results.index").unlink(),
        lambda path: path.with_name("results.index").write_bytes(b""),
        lambda path: path.with_name("results.index").write_bytes(b'{"offset":0}\n\xff'),
        cut_first_line,
    ],
)
def test_an_index_that_is_gone_or_of_other_records_is_made_again(
    indexed: History, change: Callable[[Path], object]
) -> None:
    change(indexed.path)
    numbers = range(1, 41) if change is cut_first_line else range(41)
    found = [indexed.iteration(number) for number in numbers]
    assert [record and record.iteration for record in found] == [*numbers[:-1], None]
    assert [indexed.measured_in(f"ruler{one}", f"tree{one}") for one in (3, 7, 39, 40)] == [3, None, 39, None]
    assert indexed.measured_in("ruler3", "tree4") is None and indexed.measured_in("", "") is None
