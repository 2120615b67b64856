"""The manifest: wrong keys with their line, every documented key, defaults that follow from other keys."""

import contextlib
import datetime
import json
import math
import tomllib
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from goalseek.cli.main import run as command_line
from goalseek.errors import GoalseekError
from goalseek.manifest import loading, tables, validation
from goalseek.manifest.tables import Manifest
from goalseek.measurement.ruler import Ruler, with_pinned_ruler
from goalseek.measurement.ruler import ruler_keys as keys_of_ruler
from goalseek.statistics import guards
from goalseek.values import from_line, from_plain, to_line

SMALLEST = """\
version = 1
project.name = "digits"
scope.writable = ["experiment.py"]
scope.hidden = ["validate_results.py", "hidden/**"]
metric = { direction = "maximize", query = "accuracy" }

[[verify]]
run = 'python validate_results.py --output "$GOALSEEK_RUN_DIR/metrics.json"'
sees = "both"
"""


def load(folder: Path, text: str) -> loading.ManifestFile:
    path = folder / "goalseek.toml"
    path.write_text(text)
    return loading.load(path)


def problems(folder: Path, text: str) -> str:
    with pytest.raises(GoalseekError) as caught:
        load(folder, text)
    assert caught.value.exit_code == 2
    return caught.value.message.replace(str(folder / "goalseek.toml"), "line ")


def test_the_smallest_manifest_of_the_contract_has_the_documented_defaults(tmp_path: Path) -> None:
    manifest = load(tmp_path, SMALLEST).manifest
    metric, verify = manifest.metric, manifest.verify[0]
    assert (metric.name, metric.source, metric.path, metric.command) == ("accuracy", "json", "metrics.json", "python")
    assert (verify.name, verify.timeout, verify.output_max) == ("python", "auto", 2 * 2**30)
    assert (manifest.limits.stagnation, manifest.limits.failures, manifest.limits.iterations) == (10, 20, None)
    assert manifest.scope.strays == "drop" and manifest.log.home == ".goalseek"


CLAUDE = "[provider]\nname = 'claude'\n[search]\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("speed = 1", "line :10: verify[0].speed: unknown key; known here:"),
        ("[limits]\niteration = 5", "line :11: limits.iteration: unknown key; did you mean 'iterations'?"),
        ("[limits]\niterations = 0", "line :11: limits.iterations"),
        ("[limits]\ncost_usd = 0", "line :11: limits.cost_usd"),
        ("[limits.total]\nfailures = 2", "line :11: limits.total.failures"),
        ("[limits]\niterations = true", "line :11: limits.iterations"),
        ("[limits]\ntime = 'soon'", "line :11: limits.time"),
        ("[sandbox]\nmode = 'docker'", "line :11: sandbox.mode: should be 'auto', 'bubblewrap', 'landlock' or 'none'"),
        ("[sandbox]\ndevices = ['nvidia0']", 'line :11: sandbox.devices: "auto", "none", or a list of paths'),
        ("[provider]\ntimeout = '5m'", "line :10: provider.name: is required"),
        ("[provider]\nname = 'a'\nfallback = [{ nme = 'b' }]", "line :12: provider.fallback[0].nme: unknown key; did"),
        ("[parallel]\nagents = 0", 'line :11: parallel.agents: a number from 1 to 64, or "auto"'),
        ("[parallel]\nagents = 65", 'line :11: parallel.agents: a number from 1 to 64, or "auto"'),
        ("[parallel]\nagents = 'many'", 'line :11: parallel.agents: a number from 1 to 64, or "auto"'),
        ("[parallel]\nagents = 1.5", "line :11: parallel.agents: should be a whole number"),
        ("[parallel]\nbenches = 0", "line :11: parallel.benches: a number from 1 to 64"),
        ("[parallel]\nbenches = 99999999999999999999", "line :11: parallel.benches: a number from 1 to 64"),
        ("[parallel]\nslots = { GPU = ['0'] }", "line :11: parallel.slots: was removed: a command reads its bench"),
        ("[parallel.slots]\nGPU = ['0']", "line :10: parallel.slots: was removed: a command reads its bench"),
        ("[approve]\nbefore = 'always'", "line :11: approve.before: should be 'never', 'kept' or 'each'"),
        ("[notify]\ncommand = 'ntfy'", "line :11: notify.command"),
        ("[notify]\non = ['kept']", "line :11: notify.on: was removed: the program gets every event"),
        (
            "[provider]\nname = 'tune'\nfallback = [{ name = 'replay', recordings = 'r' }]",
            "line :12: provider.fallback[0].recordings: was removed: name the folder in `record`",
        ),
        ("[provider]\nname = 'replay'", "is required by the provider"),
        ("[provider]\nname = 'replay'\nrecord = 'r'\nmodel = 'm'", "has no use with the provider"),
        ("[provider]\nname = 'tune'\nrecord = ''", "provider.record: a folder, or"),
        ("[provider]\nname = 'tune'\nrepair = -1", "line :12: provider.repair: at least 0"),
        ("[provider]\nname = 'tune'\nplan = { name = 'claude', repair = 0 }", "belongs in [provider] itself"),
        ("[[verify]]\nrun = 'x'\ncwd = '/tmp'", "line :12: verify[1].cwd"),
        ("[env.verify]\nget = ['A']", "line :11: env.verify.get: unknown key; known here: pass, set"),
        ("[[guard]]\nquery = 'size'\nmax = inf", "line :12: guard[0].max: should be a finite number; for no limit"),
        ("[[guard]]\nquery = 'size'\nvalid = [1.0, 0.0]", "line :12: guard[0].valid: two numbers, the lowest and"),
        ("[[guard]]\nquery = 'size'\nvalid = [inf, inf]", "line :12: guard[0].valid: two numbers, the lowest and"),
        ("[[guard]]\nquery = 'size'\nvalid = [-inf, inf]", "line :12: guard[0].valid: every number lies between"),
        ("[search]\nrotate = ['command']", """search.rotate[0]: is a table for the provider "command": { name = "co"""),
        ("[search]\nrotate = ['codex', 'codex']", "search.rotate[1]: 'codex' takes turns already; records tell two"),
        ("[search]\nrotate = [{ name = 'codex', repair = 3 }]", "rotate[0].repair: belongs in [provider] itself"),
        ("[search]\nrotate = [{ name = 'fresh' }]", 'search.rotate[0]: is a name without a table: "fresh"'),
        (CLAUDE + "rotate = ['claude']", """'claude' is the provider itself, and has its turn; without its session"""),
        (
            CLAUDE + "rotate = ['codex']\n[review]\nprovider = 'codex'\ncriteria = ['Short.']",
            "review.provider: 'codex' proposes the changes itself, and cannot review them",
        ),
    ],
)
def test_a_wrong_key_is_named_with_its_line(tmp_path: Path, line: str, said: str) -> None:
    assert said in problems(tmp_path, SMALLEST + line + "\n")


def test_one_agent_with_two_models_takes_turns_with_itself(tmp_path: Path) -> None:
    rotate = "rotate = ['fresh', { name = 'claude', model = 'opus' }, { name = 'claude', model = 'haiku' }]\n"
    assert len(load(tmp_path, SMALLEST + CLAUDE + rotate).manifest.search.rotate) == 3


HEAD = SMALLEST.replace('scope.writable = ["experiment.py"]\nscope.hidden = ["validate_results.py", "hidden/**"]\n', "")
PATHS: dict[str, tuple[str, Callable[[Manifest], Any]]] = {
    "share": ("[scope]\nwritable = ['a']\nshare = [{}]", lambda made: made.scope.share[0]),
    "gives": ("[setup]\nrun = 'true'\ngives = [{}]", lambda made: made.setup.gives[0] if made.setup else ""),
    "home": ("[log]\nhome = {}", lambda made: made.log.home),
    "cwd": ("[[verify]]\nname = 'b'\nrun = 'true'\ncwd = {}", lambda made: made.verify[-1].cwd),
    "outputs": ("[[verify]]\nname = 'b'\nrun = 'true'\noutputs = [{}]", lambda made: made.verify[-1].outputs[0]),
    "path": ("[[guard]]\nquery = 'b'\nmax = 1\npath = {}", lambda made: made.guard[0].path),
    "patch": ("[[cheat]]\npatch = {}", lambda made: made.cheat[0].patch),
}


@pytest.mark.parametrize("key", PATHS)
def test_a_path_has_one_spelling(tmp_path: Path, key: str) -> None:
    table, value_of = PATHS[key]
    text = (HEAD if key == "share" else SMALLEST) + table + "\n"

    def read(written: str) -> object:
        return value_of(load(tmp_path, text.replace("{}", json.dumps(written))).manifest)

    for written in ("data//raw", "data/./raw"):
        assert read(written) == "data/raw"
    for written in ("a b/c", "a\\b", "data", "~user/x", "..."):
        assert read(written) == written
    if key == "outputs":
        assert [read("./data"), read("data/"), read("/data//x")] == ["/data", "data/", "/data/x"]
    else:
        assert [read("./data"), read("data/"), read(".//data/.//")] == ["data", "data", "data"]
    if key in ("home", "cwd"):
        assert [read("."), read("./")] == [".", "."]
    line = text.count("\n")
    wrong = ["", "..", "../data", "data/../x", "~/x", "~"]
    wrong += [] if key == "outputs" else ["/data", "a\tb", ".git", "data/.GIT/x", "git~1", "x" * 256]
    wrong += [] if key in ("home", "cwd") else [".", "./"]
    for written in wrong:
        assert f"line :{line}: " in problems(tmp_path, text.replace("{}", json.dumps(written))), written


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("share = ['data', './data/']", "line :4: scope.share: 'data' is there already; list it once"),
        ("share = ['data', 'data/raw']", "line :4: scope.share: 'data/raw' and 'data' lie one in the other"),
        ("share = ['.goalseek/x']", "line :4: scope.share: '.goalseek/x' and '.goalseek' lie one in the other; go"),
        ("share = ['runs']\n[log]\nhome = '.'", "line :4: scope.share: 'runs' is there already; goalseek writes"),
        ("share = ['b']\n[setup]\nrun = 'x'\ngives = ['b/out']", "line :4: scope.share: 'b' and 'b/out'"),
        ("[setup]\nrun = 'x'\ngives = ['a/b', 'a']", "line :8: setup.gives: 'a' and 'a/b' lie one in the other"),
        (
            "share = ['d']\n[[verify]]\nrun = 'x'\noutputs = ['d/o']",
            "line :8: verify[0].outputs: 'd/o' lies in a folder",
        ),
        (
            "share = ['d']\n[[verify]]\nrun = 'x'\nkeep = ['d']",
            "line :8: verify[0].keep: 'd' lies in a folder of scope.share",
        ),
    ],
)
def test_paths_that_lie_in_each_other_are_refused(tmp_path: Path, more: str, said: str) -> None:
    head = "version = 1\nproject.name = 'digits'\n[scope]\n"
    scope, _, tables = more.partition("\n") if more.startswith("share") else ("", "", more)
    tail = "[metric]\ndirection = 'maximize'\nquery = 'accuracy'\n[[verify]]\nname = 'last'\nrun = 'last'\n"
    assert said in problems(tmp_path, f"{head}{scope}\nwritable = ['a']\n{tables}\n{tail}")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("digits", "d" * 101, "line :2: project.name: has 101 characters; a project's name has 100 at most"),
        ('"accuracy" }', '"accuracy", min_delta = -0.1 }', "line :5: metric.min_delta: zero or more"),
        ('["experiment.py"]', '["!x.py"]', "line :3: scope.writable: '!x.py' excludes from nothing"),
        ('"accuracy" }', '"accuracy", max_repeats = 1 }', "line :5: metric.max_repeats: at least 2"),
        ('"accuracy" }', '"accuracy", alpha = 0.9 }', "line :5: metric.alpha: more than 0 and at most 0.5"),
        ('"accuracy" }', '"accuracy", window = 0 }', "line :5: metric.window: at least 1"),
        ('"accuracy" }', '"accuracy", repeats = 4 }', "line :5: metric.repeats: was removed: goalseek repeats"),
        ('"accuracy" }', '"accuracy", noise = "some" }', "line :5: metric.noise: should be 'auto', 'none' or 'always'"),
        ('"accuracy" }', '"accuracy", aggregate = "min" }', "line :5: metric.aggregate: was removed: goalseek repeats"),
        ('"both"', '"both"\n[[guard]]\nquery = "accuracy"\nmax = 2', "line :10: guard[0].name: 'accuracy' is taken"),
        ('"both"', '"both"' + 2 * '\n[[cheat]]\npatch = "a"', "line :13: cheat[1].patch: 'a' is listed already"),
        ("sees =", "once = true\nsees =", "line :9: verify[0].once: nothing would be left to repeat"),
        (
            'query = "accuracy" }',
            'source = "wall", command = "a" }\n[[verify]]\nname = "a"\nrun = "true"\nonce = true\n',
            "line :9: verify[0].once: once = true is not possible if the metric is this command's run time: that command",
        ),
        ("sees =", "keep = ['!x']\nsees =", "line :9: verify[0].keep: '!x' excludes from nothing"),
        ('"both"', '"both"\n[[guard]]\nquery = "k"\nmin = 2\nmax = 1.5', "line :12: guard[0].min: 2 is more than"),
        ('"accuracy" }', '"accuracy", race = "off" }', "line :5: metric.race: has no use without cases"),
        ('"accuracy" }', '"accuracy", missing = 0 }', "line :5: metric.missing: has no use without cases"),
        ('"accuracy" }', '"accuracy", race = "on" }', "line :5: metric.race: should be 'auto' or 'off'"),
        (
            '"accuracy" }',
            '"accuracy", missing = "zero" }',
            "line :5: metric.missing: should be 'worst', 'fail' or a number",
        ),
        ('"accuracy" }', '"accuracy", missing = nan, cases = "@" }', "line :5: metric.missing: "),
        ('"accuracy" }', '"accuracy", missing = -1e200, cases = "@" }', "line :5: metric.missing: is no score: those"),
        ('query = "accuracy" }', 'source = "wall", cases = "@" }', "line :5: metric.cases: are read from JSON: leave"),
        ('query = "accuracy" }', "regex = '(.)', cases = \"@\" }", "line :5: metric.regex: has no use beside cases"),
        ('"accuracy" }', '"accuracy", cases = "results[" }', "line :5: metric.cases: 'results[' is not JMESPath: Inc"),
        ('query = "accuracy" }', 'cases = "" }', "line :5: metric.cases: '': cannot be empty"),
        ('"both"', '"both"\n[[guard]]\ncases = "@"\nmax = 2', "line :11: guard[0].cases: unknown key; known here"),
    ],
)
def test_what_would_mean_nothing_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    told = problems(tmp_path, SMALLEST.replace(old, new))
    assert said in told and "\n" not in told


@pytest.fixture(scope="module")
def adapter() -> Any:
    """Made once: making it takes longer than all the checks."""
    return validation.type_adapter()


def keys_of(kind: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every key of a table and of those in it, as it is written, without the places of lists."""
    for name, hint in typing.get_type_hints(kind).items():
        key = (*place, name.removesuffix("_"))
        yield key
        for choice in (hint, *typing.get_args(hint)):
            if hasattr(choice, "__struct_fields__") and len(key) < 3:
                yield from keys_of(choice, key)


SCALARS = (True, 0, -1, 1.5, math.nan, math.inf, "", "a\0b", datetime.date.min)
LISTS_AND_TABLES: tuple[Any, ...] = ([-math.inf, 0.0], [], [1], [[]], {}, {"a": 1}, [{}], [{"a": []}])


@pytest.mark.parametrize("value", (*SCALARS, *LISTS_AND_TABLES), ids=repr)
def test_no_value_of_any_key_is_a_bug(
    tmp_path: Path, value: Any, adapter: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validation, "type_adapter", lambda: adapter)
    plain = tomllib.loads(SMALLEST)
    path = tmp_path / "goalseek.toml"
    for key in keys_of(Manifest):
        tables = json.loads(json.dumps(plain))
        table = tables
        for part in key[:-1]:
            below = table.get(part) or ([{}] if part in ("verify", "guard", "cheat", "price") else {})
            table[part] = below
            table = below[0] if isinstance(below, list) else below
        table[key[-1]] = value
        with contextlib.suppress(GoalseekError):
            to_line(validation.validate(path, "", tables))


def test_a_range_that_is_open_on_one_side_is_plain_json_and_is_written_as_it_was_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = SMALLEST.replace('"accuracy" }', '"accuracy", valid = [-inf, 0.5] }')
    made = load(tmp_path, text + "[[guard]]\nquery = 'size'\nvalid = [0.0, inf]\nmax = 9\n").manifest
    assert made.metric.valid == (None, 0.5) and made.guard[0].valid == (0.0, None)
    assert from_plain(tables.Manifest, json.loads(to_line(made))) == made
    ruler = Ruler(keys_of_ruler(made), "")
    assert with_pinned_ruler(made, from_line(Ruler, to_line(ruler))) == made
    assert command_line(["-C", str(tmp_path), "manifest", "show"]) == 0
    assert load(tmp_path, capsys.readouterr().out).manifest == made
    outside = "{}, outside its valid range, at {}"
    assert guards.range_violation("size", made.guard[0].valid, -1.0) == outside.format("size is -1", "least 0")
    assert guards.range_violation("a", made.metric.valid, 1.0) == outside.format("a is 1", "most 0.5")
    assert guards.range_violation("a", made.metric.valid, -9.0) is None


def test_every_wrong_line_is_told_at_once_in_the_words_of_the_file(tmp_path: Path) -> None:
    """Three keys are missing, and eight have a value of a wrong type."""
    tables = "version = 1\nscope.writable = 'x'\nguard = { max = 1 }\n"
    limits = "[limits]\ntokens = '1M'\niterations = 2.5\ntime = [1]\ncost_usd = 'much'\n"
    others = "[sandbox]\nagent_network = 'yes'\n[env.verify]\nset = { A = 1 }\n"
    assert problems(tmp_path, tables + limits + others).splitlines() == [
        'line :1: metric: is required: metric = { direction = "maximize", query = "accuracy" }',
        'line :1: project: is required: project.name = "digits"',
        'line :1: verify: is required: [[verify]] with run = "python validate_results.py"',
        'line :2: scope.writable: should be a list, such as ["a", "b"], not "x"',
        'line :3: guard: should be a list of tables: [[guard]] in double brackets, not {"max": 1}',
        'line :5: limits.tokens: should be a whole number, such as 1_000, not "1M"',
        "line :6: limits.iterations: should be a whole number, such as 1_000, not 2.5",
        'line :7: limits.time: a duration is a positive number of seconds, or a text such as "90s", "30m", "8h"',
        'line :8: limits.cost_usd: should be a number, such as 0.5, not "much"',
        'line :10: sandbox.agent_network: should be true or false, not "yes"',
        'line :12: env.verify.set.A: should be a text in quotes, such as "a", not 1',
    ]


def test_a_file_that_is_no_toml_or_no_text_is_refused(tmp_path: Path) -> None:
    assert "line 1" in problems(tmp_path, "version = \n")
    (tmp_path / "goalseek.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(GoalseekError, match="is not UTF-8"):
        loading.load(tmp_path / "goalseek.toml")


def test_none_switches_any_limit_off_and_units_are_read(tmp_path: Path) -> None:
    text = "[limits]\niterations = 'none'\ntime = '8h'\ndeadline = 2026-12-01T07:00:00Z\nstagnation = 'none'\n"
    text = (
        SMALLEST.replace('"digits"', f'"{"d" * 100}"').replace('"accuracy" }', '"accuracy", min_delta = "0.5%" }')
        + text
    )
    manifest = load(tmp_path, text).manifest
    limits = manifest.limits
    assert manifest.metric.min_delta == "0.5%"
    assert (limits.iterations, limits.stagnation, limits.time) == (None, None, 8 * 3600)
    assert limits.deadline == datetime.datetime(2026, 12, 1, 7, tzinfo=datetime.UTC)
    assert load(tmp_path, SMALLEST + "[limits]\ntime = 90\n").manifest.limits.time == 90


def test_a_remembered_manifest_is_the_checked_one(tmp_path: Path) -> None:
    text = SMALLEST + "[limits]\ndeadline = 2026-12-01T07:00:00Z\n[provider]\nname = 'command'\ncommand = ['a', 'b']\n"
    checked = load(tmp_path, text)
    (tmp_path / ".goalseek" / "digits" / "logs").mkdir(parents=True)
    assert load(tmp_path, text) == checked
    assert (tmp_path / ".goalseek" / "digits" / "logs" / "manifest.json").exists()
    assert load(tmp_path, text) == checked


def test_it_is_found_from_any_folder_below_and_by_name_and_one_below_is_named(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    for name in ("goalseek.toml", "goalseek.speed.toml"):
        (tmp_path / name).write_text(SMALLEST)
    assert loading.find(inner) == tmp_path / "goalseek.toml"
    assert loading.find(inner, "speed") == tmp_path / "goalseek.speed.toml"
    assert loading.find(inner, "../../goalseek.toml") == tmp_path / "goalseek.toml"
    (tmp_path / "goalseek.toml").unlink()
    (tmp_path / "native code").mkdir()
    (tmp_path / "native code" / "goalseek.toml").write_text(SMALLEST)
    with pytest.raises(GoalseekError) as caught:
        loading.find(tmp_path)
    assert caught.value.hint == "one is below: goalseek -C 'native code'; or make one with: goalseek init"
    (tmp_path / "services/billing").mkdir(parents=True)
    (tmp_path / "services/billing/goalseek.toml").write_text(SMALLEST)
    with pytest.raises(GoalseekError) as caught:
        loading.find(tmp_path)
    assert caught.value.hint.startswith("2 are below: goalseek -C 'native code', goalseek -C services/billing; or")
