"""Calls are recorded without credentials, and played again without an agent: the same climb comes of it."""

import json
from typing import Any

import pytest
from project import Project, Projects, copy_folder, everything_written, home

pytestmark = pytest.mark.slow

KEY = "sk-planted-api-key-0123456789"
TRAIN = "if grep -q crash answer.json; then echo loading; cat answer.json >&2; exit 1; fi\n"
FILES = {
    "answer.json": '{"score": 1}\n',
    "other.txt": "x\n",
    "train.sh": TRAIN,
    "hidden/judge.sh": 'cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"\n',
}
VERIFY = [
    {"name": "train", "run": "sh train.sh", "sees": "candidate"},
    {"name": "judge", "run": "sh hidden/judge.sh", "sees": "both"},
]
AGENT = """\
echo "$GOALSEEK_PHASE $PLANTED_KEY"; echo "$PLANTED_KEY" >&2
printf '{"output_tokens": 100, "cost_usd": 0.25}' > "$GOALSEEK_USAGE"
NONCE=$GOALSEEK_NONCE
case "$GOALSEEK_ITERATION $GOALSEEK_PHASE" in
"1 plan") echo nothing;;
"6 plan") [ -e "$HOME/asked" ] && printf '<<<GOALSEEK PLAN %s\\nsixth %s\\nGOALSEEK PLAN %s>>>\\n' $NONCE $PLANTED_KEY $NONCE
    touch "$HOME/asked";;
*plan) printf '<<<GOALSEEK PLAN %s\\nan idea\\nGOALSEEK PLAN %s>>>\\n' $NONCE $NONCE;;
"2 apply") echo '{"score": 2, "crash": 1}' > answer.json;;
"2 repair") echo '{"score": 2}' > answer.json;;
"3 apply") echo '{"score": 3}' > answer.json; echo mine > other.txt;;
"3 repair") ;;
"4 apply") exit 7;;
"5 apply") echo "{\\"score\\": 5, \\"key\\": \\"$PLANTED_KEY\\"}" > answer.json;;
"6 apply") printf '{"score": 6, "crash": 1}' > answer.json;;
"6 repair") echo "$PLANTED_KEY" > answer.json;;
esac
"""
REASONS = ["no_plan", "better", "better", "provider_failed", "out_of_scope", "verify_failed"]


def told(record: dict[str, Any]) -> dict[str, Any]:
    keys = ("iteration", "outcome", "reason", "changed_files", "hypothesis_summary")
    attempts = [attempt["reason"] for attempt in record["attempts"]]
    return {**{key: record[key] for key in keys}, "value": record["metric"]["value"], "attempts": attempts}


def replaying(recorded: Project, name: str) -> Project:
    """A project that plays those recordings."""
    again = Project.make(recorded.top.parent / name, FILES)
    copy_folder(recorded.folder / "recordings", again.folder / "recordings")
    again.set_manifest({"provider": {"name": "replay", "record": "recordings"}, "verify": VERIFY})
    again.commit()
    return again


def test_each_call_is_stored_without_a_credential_and_played_again_and_what_is_wrong_with_recordings_is_said(
    make_project: Projects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED_KEY", KEY)
    recorded = make_project(files=FILES)
    recorded.set_agent(AGENT, {"verify": VERIFY}, ask_plan=True, credentials=["PLANTED_KEY"], record="recordings")
    recorded.commit()
    assert [record["reason"] for record in recorded.climb("iterate", "-n", "6")[1:]] == REASONS
    found = {path.stem: json.loads(path.read_text()) for path in (recorded.folder / "recordings").iterdir()}
    assert sorted(found) == [
        "0001-plan", "0001-plan-2", "0002-apply", "0002-plan", "0002-repair", "0003-apply", "0003-plan", "0003-repair",
        "0004-apply", "0004-plan", "0005-apply", "0005-plan", "0006-apply", "0006-plan", "0006-plan-2", "0006-repair",
    ]  # fmt: skip
    mended = found["0002-repair"]
    assert "Your change was not accepted" in mended["prompt"] and mended["reply"]["usage"]["cost_usd"] == 0.25
    assert '-{"score": 2, "crash": 1}' in mended["patch"] and '+{"score": 2}' in mended["patch"], "what this call did"
    assert "repair [credential]" in mended["reply"]["output"]
    assert "other.txt" in found["0003-apply"]["patch"] and found["0003-repair"]["patch"] == ""
    assert found["0004-apply"]["rejected"]["reason"] == "provider_failed"
    assert recorded.git("status", "--porcelain") == "?? recordings/"
    record = recorded.iterations()[6]
    assert record["attempts"][0]["reason"] == "out_of_scope" and "holds a credential" in record["notes"][0]
    assert record["hypothesis_summary"] == "sixth [credential]"
    places = list(everything_written(recorded))
    assert len(places) > 100 and not [place for place, content in places if KEY.encode() in content]

    again = replaying(recorded, "again")
    records = again.climb("iterate", "-n", "6")
    assert list(map(told, records)) == list(map(told, recorded.iterations()))
    assert [record["provider"] for record in records[1:]] == ["replay"] * 6
    usages = [usage["usage"] for record in records for usage in (record, *record["attempts"])]
    assert not any(usage["output_tokens"] or usage["cost_usd"] for usage in usages), "nothing was spent"
    ended = again.run("iterate", "--forever")
    assert "recordings has recordings of 6 iterations, and this is proposal 7" in ended.stdout + ended.stderr
    assert len(again.iterations()) == 1 + 6, "no iteration fails for want of recordings"
    assert (again.run("audit").exit_code, recorded.run("audit").exit_code) == (0, 0)
    seventh = again.climb()[7]
    assert seventh["reason"] == "provider_failed"
    assert "recordings of 6 iterations, and this is proposal 7" in seventh["why"]
    workspaces = list(home("cache").glob("goalseek/*/workspace"))
    assert len(workspaces) == 2 and all((workspace / "answer.json").exists() for workspace in workspaces)
    assert not [workspace for workspace in workspaces if (workspace / "recordings").exists()], "they are hidden"

    damaged = replaying(recorded, "damaged")
    files = damaged.folder / "recordings"
    (files / "0001-plan.json").unlink()
    record = damaged.climb()[-1]
    assert record["reason"] == "provider_failed" and "there is no recording 0001-plan.json" in record["why"]
    place = files / "0002-apply.json"
    place.write_text(place.read_text().replace('-{\\"score\\": 1}', '-{\\"score\\": 7}'))
    record = damaged.climb()[-1]
    assert record["reason"] == "provider_failed" and "0002-apply.json does not apply" in record["why"]
    (files / "0003-apply.json").write_text("{")
    ended = damaged.run("iterate")
    assert ended.exit_code == 3 and "0003-apply.json is not a recording" in ended.stderr
    for path in files.iterdir():
        path.unlink()
    ended = damaged.run("iterate")
    assert ended.exit_code == 3 and "has no recordings" in ended.stderr
