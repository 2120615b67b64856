"""``goalseek brief``: who edits in a checkout knows what a prompt would say, also while a climb is at work."""

import json

from jsonschema import Draft202012Validator
from project import FILES, Project, Projects, answer, home

from goalseek.manifest.keys import published_schema

WAITING = """\
grep -q 5 answer.json && touch "$HOME/waiting" && while [ ! -e "$HOME/go" ]; do sleep 0.05; done
cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"
"""


def test_it_says_in_words_and_in_json_what_the_agent_is_told(played: Projects) -> None:
    project = played(answer(2), answer(1.5), more=(answer(5),))
    (project.folder / "program.md").write_text("Leave the size alone.\n")
    project.check("direct", "prefer round numbers")
    text = project.check("brief")
    for told in (
        'Goal: a higher score (project "demo"). It is 2 now; it was 1 at the start.',
        "- answer.json\n",
        "Leave the size alone.",
        "# Directions from the person in charge\n\n- prefer round numbers",
        "- 2: reverted/worse 1.5, -0.5: move 2",
        "why: 1.5 is worse than 2 by 0.5",
    ):
        assert told in text, told
    assert "judge.sh" not in text and text.splitlines()[-1].startswith(
        "Edit the files for one idea, then run: goalseek try"
    )
    brief = project.ask("brief")
    Draft202012Validator(published_schema("brief")).validate(brief)
    assert (brief["incumbent"], brief["iteration"], brief["directions"]) == (2, 3, ["prefer round numbers"])
    project.check("iterate")
    prompt = json.loads(project.check("--json", "show", "3"))
    assert prompt["directions"] == brief["directions"]


def test_a_climb_at_work_is_no_obstacle_and_before_the_first_measurement_it_says_so(project: Project) -> None:
    assert "nothing is measured yet" in project.fail(1, "brief")
    project.write({**FILES, "hidden/judge.sh": WAITING})
    project.commit()
    project.set_moves(answer(2), answer(5))
    running = project.start_until(home("waiting"), "iterate", "-n", "2")
    assert "It is 2 now" in project.check("brief")
    home("go").touch()
    running.communicate(timeout=60)
    assert running.returncode == 0 and "It is 5 now" in project.check("brief")
