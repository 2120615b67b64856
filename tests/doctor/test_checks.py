"""The one registry of checks: what refuses a climb is a cross of doctor's, in the same words."""

from pathlib import Path

import pytest
from doctor_cases import crosses, make_case

from goalseek.doctor.checks import CHECKS

LINE = 'sandbox.mode = "none"'
FAULTS = {
    "globs": ('scope.hidden = ["gone/**"]', ""),
    "share": ('scope.share = ["data"]', ""),
    "program": ('project.program = "tips.md"', ""),
    "cheat": ('cheat = [{ patch = "gone.patch" }]', ""),
    "committed": ("", "exit 1\n"),
    "sandbox": ('sandbox.read = ["/gone"]', ""),
}


@pytest.mark.parametrize(("line", "judge"), FAULTS.values(), ids=FAULTS)
def test_iterate_and_baseline_refuse_what_doctor_has_a_cross_for_in_its_words(
    tmp_path: Path, line: str, judge: str
) -> None:
    case = make_case(tmp_path)
    text = (case.folder / "goalseek.toml").read_text()
    case.write(goalseek_toml=text.replace(LINE, f"{LINE}\n{line}"))
    case.commit("a fault")
    case.write(**({"judge_sh": judge} if judge else {}))
    found = {(one["text"], one["remedy"]) for one in crosses(case.run("--json", "doctor", "--quick"))}
    for command in ("iterate", "baseline"):
        stderr = case.run(command).stderr
        assert [cross for cross in found if "goalseek: {}\n  {}\n".format(*cross) in stderr], (found, stderr)


def test_what_a_climb_asks_doctor_asks_too() -> None:
    assert [check.place for check in CHECKS if "iterate" in check.asked_by and "doctor" not in check.asked_by] == []
