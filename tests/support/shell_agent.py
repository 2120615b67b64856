"""An agent that is a shell: it runs one line in each iteration."""

from typing import Any

from project import Project, answer


def set_steps(project: Project, *steps: str, tables: dict[str, Any] | None = None, **scope: object) -> None:
    """Makes the agent a shell that runs the n-th line in iteration n."""
    lines = "\n".join(f"{number}) {step};;" for number, step in enumerate(steps, start=1))
    agent = project.top.parent / "agent.sh"
    agent.write_text(f'case $GOALSEEK_ITERATION in\n{lines}\nesac\necho "step $GOALSEEK_ITERATION"\n')
    provider = {"name": "command", "command": ["sh", str(agent)], "repair": 0}
    scopes = {"scope": scope} if scope else {}
    project.set_manifest({"provider": provider, "limits": {"stagnation": "none"}, **scopes, **(tables or {})})


def play(project: Project, *steps: str, **scope: object) -> list[dict[str, Any]]:
    """One iteration for each shell line, run in the workspace; gives the records after the baseline."""
    set_steps(project, *steps, **scope)
    return project.climb("iterate", "-n", str(len(steps)))[1:]


def better(score: int) -> str:
    return f"""printf '%s' '{answer(score)}' > answer.json"""
