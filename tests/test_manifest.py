"""The manifest: wrong keys with their line, every documented key, defaults that follow from other keys."""

import json
from pathlib import Path

import pytest

from goalseek import manifest_file
from goalseek.errors import GoalseekError

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


def load(folder: Path, text: str) -> manifest_file.Loaded:
    path = folder / "goalseek.toml"
    path.write_text(text)
    return manifest_file.load(path)


def problems(folder: Path, text: str) -> str:
    with pytest.raises(GoalseekError) as caught:
        load(folder, text)
    assert caught.value.exit_code == 2
    return caught.value.message.replace(str(folder / "goalseek.toml"), "line ")


def test_the_smallest_manifest_of_the_contract_has_the_documented_defaults(tmp_path: Path) -> None:
    manifest = load(tmp_path, SMALLEST).manifest
    assert manifest.metric.name == "accuracy" and manifest.metric.source == "json"
    assert manifest.metric.path == "metrics.json" and manifest.metric.command == "python"
    assert manifest.verify[0].name == "python" and manifest.verify[0].timeout == "auto"
    assert manifest.verify[0].output_max == 2 * 2**30
    assert (manifest.limits.stagnation, manifest.limits.failures, manifest.limits.iterations) == (10, 20, None)
    assert manifest.scope.strays == "drop" and manifest.log.home == ".goalseek"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("speed = 1", "line :10: verify[0].speed: there is no such key; known here:"),
        ("[limits]\niteration = 5", "line :11: limits.iteration: there is no such key; known here: iterations"),
        ("[limits]\niterations = 0", "line :11: limits.iterations"),
        ("[limits]\niterations = '5'", "line :11: limits.iterations"),
        ("[limits]\niterations = true", "line :11: limits.iterations"),
        ("[limits]\ntime = 'soon'", "line :11: limits.time"),
        ("[log]\nkeep_runs = 0", "line :11: log.keep_runs"),
        ("[log]\nkeep_runs = 'all'", "line :11: log.keep_runs"),
        ("[log]\nkeep_outputs = 'all'", "line :11: log.keep_outputs"),
        ("[limits]\nstagnation = 'nothing'", "line :11: limits.stagnation"),
        ("[sandbox]\nmode = 'docker'", "line :11: sandbox.mode: should be 'auto', 'bubblewrap', 'landlock' or 'none'"),
        ("[sandbox]\ndevices = ['nvidia0']", 'line :11: sandbox.devices: "auto", "none", or a list of paths'),
        ("[sandbox]\nread = '~/.cache'", "line :11: sandbox.read"),
        ("[[verify]]\nrun = 'x'\nnetwork = 'yes'", "line :12: verify[1].network"),
        ("[provider]\ntimeout = '5m'", "line :10: provider.name: is required"),
        ("[[verify]]\nrun = 5", "line :11: verify[1].run"),
        ("[[verify]]\nrun = 'x'\nsees = 'all'", "line :12: verify[1].sees"),
        ("[[verify]]\nrun = 'x'\ncwd = '/tmp'", "line :12: verify[1].cwd"),
        ("[env.verify]\nset = { A = 1 }", "line :11: env.verify.set.A"),
        ("[env.verify]\nget = ['A']", "line :11: env.verify.get: there is no such key; known here: pass, set"),
        ("[[guard]]\nquery = 'size'\nmax = 'much'", "line :12: guard[0].max"),
    ],
)
def test_a_wrong_key_is_named_with_its_line(tmp_path: Path, line: str, said: str) -> None:
    assert said in problems(tmp_path, SMALLEST + line + "\n")


def test_every_wrong_line_is_told_at_once(tmp_path: Path) -> None:
    told = problems(tmp_path, SMALLEST.replace('"maximize"', '"up"') + "[limits]\nx = 1\n[log]\ny = 1\n").splitlines()
    assert len(told) == 3


def test_a_file_that_is_no_toml_and_one_that_is_no_text(tmp_path: Path) -> None:
    assert "line 1" in problems(tmp_path, "version = \n")
    (tmp_path / "goalseek.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(GoalseekError, match="is not UTF-8"):
        manifest_file.load(tmp_path / "goalseek.toml")


def test_none_switches_any_limit_off_and_units_are_read(tmp_path: Path) -> None:
    limits = "[limits]\niterations = 'none'\ntime = '8h'\ndeadline = 2026-12-01T07:00:00Z\nstagnation = 'none'\n"
    manifest = load(tmp_path, SMALLEST + limits).manifest
    assert manifest.limits.iterations is None and manifest.limits.stagnation is None
    assert manifest.limits.time == 8 * 3600
    assert manifest.limits.deadline is not None and manifest.limits.deadline.isoformat() == "2026-12-01T07:00:00+00:00"
    assert load(tmp_path, SMALLEST + "[limits]\ntime = 90\n").manifest.limits.time == 90


def test_a_remembered_manifest_is_the_checked_one(tmp_path: Path) -> None:
    text = SMALLEST + "[limits]\ndeadline = 2026-12-01T07:00:00Z\n[provider]\nname = 'command'\ncommand = ['a', 'b']\n"
    checked = load(tmp_path, text)
    (tmp_path / ".goalseek" / "digits" / "logs").mkdir(parents=True)
    assert load(tmp_path, text) == checked
    assert (tmp_path / ".goalseek" / "digits" / "logs" / "manifest.json").exists()
    assert load(tmp_path, text) == checked


def test_it_is_found_from_any_folder_below_and_by_name(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    for name in ("goalseek.toml", "goalseek.speed.toml"):
        (tmp_path / name).write_text(SMALLEST)
    assert manifest_file.find(inner) == tmp_path / "goalseek.toml"
    assert manifest_file.find(inner, "speed") == tmp_path / "goalseek.speed.toml"
    assert manifest_file.find(inner, "../../goalseek.toml") == tmp_path / "goalseek.toml"


def test_the_schema_is_json_and_knows_the_keys_as_people_write_them() -> None:
    schema = json.loads(json.dumps(manifest_file.schema()))
    assert {"version", "project", "scope", "metric", "verify", "limits"} <= set(schema["properties"])
    assert '"pass"' in json.dumps(schema) and '"pass_"' not in json.dumps(schema)
