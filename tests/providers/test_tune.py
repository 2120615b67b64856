"""The provider ``tune``: plans from the records alone, applies from the plan alone, climbs."""

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from goalseek.errors import UNFIT, GoalseekError, Rejected
from goalseek.manifest.tables import ProviderTable
from goalseek.phase_values import Ahead, Context, PastIteration, Plan
from goalseek.providers import tunables
from goalseek.providers.provider import Call, CallHost, Prompts, Provider, Reply, WritableFile
from goalseek.providers.tune import make, parse, title

Loss = Callable[[dict[str, Any]], float]
SAMPLERS = ("tpe", "cmaes", "random")

SOURCE = (
    "RATE = 0.9  # goalseek: float 1e-3..1 log\n"
    "SHIFT = -4.0  # goalseek: float -5..5\n"
    "DEPTH = 11  # goalseek: int 1..12\n"
    'KERNEL = "rbf"  # goalseek: choice "rbf" "linear" "a, b"\n'
)


class Held(CallHost):
    def __init__(self, baseline_file: Callable[[str], bytes | None]) -> None:
        self.baseline_file = baseline_file  # type: ignore[method-assign]


def call(folder: Path, value: float = 10.0, history: Sequence[PastIteration] = (), attempt: int = 0) -> Call:
    context = Context(
        iteration=len(history) + 1, attempt=attempt, moment=0, incumbent_commit="c" * 40, incumbent_value=value,
        baseline_value=value, best_value=value, stagnation=0, flattened=False, program="",
        directions=(), files=(), files_total=0, commits=(),
    )  # fmt: skip
    writable = tuple(sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()))
    return Call(
        phase="plan", context=context, history=tuple(history), folder=folder, writable=writable, prompts=lambda: Prompts(""), brief={}, nonce="5F3A9C",
        metric="loss", direction="minimize", host=CallHost(), usage_file=folder.parent / "usage.json",
    )  # fmt: skip


def tune(folder: Path, sampler: str = "tpe", seed: int = 0) -> Provider:
    return make(ProviderTable(name="tune", sampler=sampler, seed=seed), folder)  # type: ignore[arg-type]


def plan_of(reply: Reply) -> Plan:
    return Plan(reply.title, reply.text, reply.files)


def constants_in(folder: Path) -> dict[str, tunables.Constant]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    found = (tunables.find_constants(str(path.relative_to(folder)), path.read_bytes()) for path in files)
    return tunables.by_name(itertools.chain.from_iterable(found))


def values_in(folder: Path) -> dict[str, tunables.Value]:
    return {name: constant.value for name, constant in constants_in(folder).items()}


def past(number: int, title: str, value: float | None = 2.0, reason: str = "worse") -> PastIteration:
    return PastIteration(number, "kept" if reason == "better" else "reverted", reason, value, (), title, "")


def climb(
    folder: Path, loss: Loss, rounds: int, sampler: str = "tpe", seed: int = 0
) -> tuple[float, list[PastIteration]]:
    """Plays the loop: keeps what is better, puts back what is not, and tells of each."""
    provider = tune(folder, sampler, seed)
    best = loss(values_in(folder))
    history: list[PastIteration] = []
    for iteration in range(1, rounds + 1):
        before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        asked = call(folder, best, history, iteration - 1)
        plan = plan_of(provider.plan(asked))
        provider.apply(asked, plan)
        value = loss(values_in(folder))
        history.append(past(iteration, plan.title, value, "better" if value < best else "worse"))
        if value >= best:
            for path, content in before.items():
                path.write_bytes(content)
        best = min(best, value)
    return best, history


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / "src/model.py").write_text(SOURCE)
    (project / "notes.txt").write_text("nothing here\n")
    (project / "blob.bin").write_bytes(b"\xff\x00\xfe")
    return project


def test_a_plan_names_constants_files_old_and_new_and_is_all_that_applying_needs(folder: Path) -> None:
    reply = tune(folder).plan(call(folder))
    setting = parse(reply.title, constants_in(folder))
    assert setting is not None and list(setting) == ["RATE", "SHIFT", "DEPTH", "KERNEL"]
    assert reply.files == ("src/model.py",)
    assert [line.split(":")[0] for line in reply.text.splitlines()] == list(setting)
    assert f"RATE: 0.9 -> {tunables.format_literal(setting['RATE'])}" in reply.text
    assert (folder / "src/model.py").read_text() == SOURCE
    tune(folder).apply(structs.replace(call(folder), phase="apply"), plan_of(reply))
    assert title(values_in(folder)) == reply.title


def test_applying_writes_exactly_what_the_title_says_and_nothing_else(folder: Path) -> None:
    provider, asked = tune(folder), call(folder)
    plan = Plan('RATE = 0.03162, SHIFT = 1.0e-05, DEPTH = 5, KERNEL = "a, b"', "text")
    assert provider.apply(asked, plan).files == ("src/model.py",)
    assert (folder / "src/model.py").read_text() == (
        "RATE = 0.03162  # goalseek: float 1e-3..1 log\n"
        "SHIFT = 1.0e-05  # goalseek: float -5..5\n"
        "DEPTH = 5  # goalseek: int 1..12\n"
        'KERNEL = "a, b"  # goalseek: choice "rbf" "linear" "a, b"\n'
    )
    assert provider.apply(asked, plan).files == ()


def test_a_plan_that_does_not_name_an_allowed_value_for_each_constant_is_refused(folder: Path) -> None:
    for bad in (
        *("", "Make it faster", "RATE = 0.1"),
        'RATE = 0.1, SHIFT = 0.0, DEPTH = 5, KERNEL = "rbf", MORE = 1',
        'RATE = 0.1, SHIFT = 0.0, DEPTH = 5, KERNEL = "gone"',
        'RATE = 7.0, SHIFT = 0.0, DEPTH = 5, KERNEL = "rbf"',
        'RATE = 0.1, SHIFT = 0.0, DEPTH = 5.5, KERNEL = "rbf"',
        'RATE = 0.1, RATE = 0.1, SHIFT = 0.0, DEPTH = 5, KERNEL = "rbf"',
        'RATE = 0.1, SHIFT = 0.0, DEPTH = 5, KERNEL = "rb',
    ):
        with pytest.raises(Rejected) as caught:
            tune(folder).apply(call(folder), Plan(bad, ""))
        assert (caught.value.outcome, caught.value.reason) == ("skipped", "no_plan")
    assert (folder / "src/model.py").read_text() == SOURCE


def in_another_process(code: str, *arguments: str) -> str:
    """What this code prints in a Python with another hash seed; ``t`` is this module."""
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", f"import json, sys, test_tune as t\nfrom pathlib import Path\n{code}", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.slow
def test_the_same_history_gives_the_same_plan_in_another_process(folder: Path, sampler: str) -> None:
    _, history = climb(folder, lambda values: (values["SHIFT"] - 1) ** 2 + values["DEPTH"], 9, sampler)
    here = tune(folder, sampler).plan(call(folder, 3.0, history, 9))
    code = (
        "history = [t.PastIteration(*row) for row in json.loads(sys.argv[2])]\n"
        "folder = Path(sys.argv[1])\n"
        "print(t.tune(folder, sys.argv[3]).plan(t.call(folder, 3.0, history, 9)).title)\n"
    )
    rows = json.dumps([list(structs.asdict(attempt).values()) for attempt in history])
    assert in_another_process(code, str(folder), rows, sampler) == here.title + "\n"


def test_another_seed_or_another_attempt_gives_another_plan(folder: Path) -> None:
    asked = [(tune(folder, seed=seed), call(folder, attempt=attempt)) for seed in (0, 1) for attempt in (0, 1)]
    assert len({provider.plan(one).title for provider, one in asked}) == 4


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_nothing_is_tried_twice_until_all_was_tried(tmp_path: Path, sampler: str) -> None:
    (tmp_path / "x.py").write_text("A = 1  # goalseek: int 1..5 step 2\nB = off  # goalseek: choice off on\n")
    titles = [title(values_in(tmp_path))]
    history: list[PastIteration] = []
    for iteration in range(5):
        titles.append(tune(tmp_path, sampler).plan(call(tmp_path, 1.0, history, iteration)).title)
        history.append(past(iteration + 1, titles[-1]))
    assert len(set(titles)) == 6
    with pytest.raises(Rejected, match="every setting of A, B was tried") as caught:
        tune(tmp_path, sampler).plan(call(tmp_path, 1.0, history, 5))
    assert (caught.value.outcome, caught.value.reason) == ("skipped", "no_plan")


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_baselines_own_setting_is_not_tried_after_a_keep(tmp_path: Path, sampler: str) -> None:
    file = tmp_path / "x.py"
    file.write_text("A = 1  # goalseek: int 1..3\nB = 1  # goalseek: int 1..2\n")
    baseline = title(values_in(tmp_path))
    asked = structs.replace(call(tmp_path, 2.0), host=Held({"x.py": file.read_bytes()}.get))
    for iteration in range(5):
        plan = plan_of(tune(tmp_path, sampler).plan(asked))
        assert plan.title != baseline
        tune(tmp_path, sampler).apply(asked, plan)
        asked = structs.replace(
            asked, history=(*asked.history, past(iteration + 1, plan.title, 1.0 - iteration, "better"))
        )
    with pytest.raises(Rejected, match="every setting of A, B was tried"):
        tune(tmp_path, sampler).plan(asked)
    for other in (None, b"A = 9\n", b"A = 9  # goalseek: int 3..1\n", b"A = 1  # goalseek: int 1..3\n"):
        assert tune(tmp_path).plan(structs.replace(asked, host=Held(lambda path, other=other: other))).title == baseline


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_what_is_tried_now_beside_it_is_no_proposal(tmp_path: Path, sampler: str) -> None:
    (tmp_path / "x.py").write_text("N = 1  # goalseek: int 1..3\nM = 5  # goalseek: int 5..6\n")
    asked, ahead = call(tmp_path), (Ahead(1), Ahead(2, "Another layer"))
    for number in range(3, 8):
        told = structs.replace(asked, context=structs.replace(asked.context, ahead=ahead))
        ahead = (*ahead, Ahead(number, tune(tmp_path, sampler).plan(told).title))
    assert len({one.title for one in ahead} - {"N = 1, M = 5"}) == 2 + 5
    told = structs.replace(asked, context=structs.replace(asked.context, ahead=ahead))
    with pytest.raises(Rejected, match="every setting"):
        tune(tmp_path, sampler).plan(told)


def test_on_another_tip_the_values_are_written_into_its_files(folder: Path) -> None:
    plan = Plan('RATE = 0.5, SHIFT = -4.0, DEPTH = 11, KERNEL = "rbf"', "text")
    tip = SOURCE.replace("0.9", "0.2").replace("11", "7") + "# more\n"
    files = [WritableFile("a.py", lambda: b"A = 1\n"), WritableFile("src/model.py", tip.encode)]
    assert tune(folder).render(plan, files) == {"src/model.py": SOURCE.replace("0.9", "0.5").encode() + b"# more\n"}
    assert tune(folder).render(plan, files[:1]) is None, "nothing is marked there"
    assert tune(folder).render(Plan("RATE = 0.5", ""), files) is None


def test_what_others_did_and_what_failed_does_not_stop_a_plan(folder: Path) -> None:
    good = 'RATE = 0.5, SHIFT = 0.0, DEPTH = 5, KERNEL = "rbf"'
    history = [
        past(1, "Rewrite the solver", 1.0, "better"),
        past(2, good, None, "verify_failed"),
        past(3, good.replace("5,", "6,"), 0.1, "guard"),
        past(4, "", None, "no_plan"),
        past(5, "RATE = 0.5, GONE = 3", 9.0),
    ]
    for sampler in SAMPLERS:
        assert parse(tune(folder, sampler).plan(call(folder, history=history)).title, constants_in(folder))


def test_constants_of_one_name_in_two_files_are_both_named_and_written(folder: Path) -> None:
    (folder / "other.yml").write_bytes(b"DEPTH: 2  # goalseek: int 1..12\r\n")
    provider, asked = tune(folder), call(folder)
    plan = plan_of(provider.plan(asked))
    setting = parse(plan.title, constants_in(folder))
    assert setting is not None
    assert {"other.yml:DEPTH", "src/model.py:DEPTH"} < set(setting)
    provider.apply(asked, plan)
    assert values_in(folder) == setting
    assert (folder / "other.yml").read_bytes().endswith(b"  # goalseek: int 1..12\r\n")


@pytest.mark.parametrize(
    "source", ["X = 0.5  # goalseek: float 0..1\n", "K = a  # goalseek: choice a b c\nM = x  # goalseek: choice x y\n"]
)
def test_cmaes_gives_way_to_tpe_where_it_cannot_work_and_says_so(tmp_path: Path, source: str) -> None:
    (tmp_path / "x.py").write_text(source)
    assert "tpe took its place" in tune(tmp_path, "cmaes").plan(call(tmp_path)).text
    assert "tpe" not in tune(tmp_path, "tpe").plan(call(tmp_path)).text


def test_no_marks_at_all_is_refused_with_an_example_and_a_link_is_not_followed(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text("SECRET = 1  # goalseek: int 1..9\n")
    (folder / "link.py").symlink_to(outside)
    assert "SECRET" not in tune(folder).plan(call(folder)).title
    (folder / "src/model.py").write_text("RATE = 0.1\n")
    with pytest.raises(GoalseekError, match="no constant is marked") as caught:
        tune(folder).plan(call(folder))
    assert tunables.EXAMPLE in caught.value.hint


@pytest.mark.parametrize(("sampler", "module"), [("tpe", "optuna"), ("cmaes", "optuna"), ("cmaes", "cmaes")])
def test_without_the_extra_the_check_names_it(
    folder: Path, sampler: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tune(folder, sampler).check()
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(GoalseekError, match=r"goalseek\[tune\]") as caught:
        tune(folder, sampler).check()
    assert (caught.value.exit_code, caught.value.hint) == (UNFIT, 'pip install "goalseek[tune]"')


def test_making_checking_and_applying_do_not_import_optuna(folder: Path) -> None:
    code = (
        "folder = Path(sys.argv[1]); provider = t.tune(folder); provider.check()\n"
        "provider.apply(t.call(folder), t.Plan('RATE = 0.1, SHIFT = 0.0, DEPTH = 5, KERNEL = \"rbf\"', ''))\n"
        "assert 'optuna' not in sys.modules and 'numpy' not in sys.modules\n"
    )
    in_another_process(code, str(folder))
    assert values_in(folder)["DEPTH"] == 5


@pytest.mark.parametrize("sampler", ["tpe", "cmaes"])
def test_twenty_tries_take_a_mediocre_start_uphill(folder: Path, sampler: str) -> None:
    def loss(values: dict[str, Any]) -> float:
        shift, depth, rate = (values["SHIFT"] - 1) / 10, (values["DEPTH"] - 4) / 12, values["RATE"] - 0.1
        return float(shift**2 + depth**2 + rate**2)

    before = loss(values_in(folder))
    best, history = climb(folder, loss, 20, sampler)
    assert best < before / 4
    assert sum(attempt.outcome == "kept" for attempt in history) >= 2
