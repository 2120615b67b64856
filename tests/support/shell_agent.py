"""An agent that is a shell: it runs one line in each iteration."""

from typing import Any

from project import Project, answer


def set_steps(project: Project, *steps: str, tables: dict[str, Any] | None = None, **scope: object) -> None:
    """Makes the agent a shell that runs the n-th line in iteration n."""
    lines = "\n".join(f"{number}) {step};;" for number, step in enumerate(steps, start=1))
    script = f'case $GOALSEEK_ITERATION in\n{lines}\nesac\necho "step $GOALSEEK_ITERATION"\n'
    scopes = {"scope": scope} if scope else {}
    project.set_agent(script, {"limits": {"stagnation": "none"}, **scopes, **(tables or {})}, repair=0)


def play(project: Project, *steps: str, **scope: object) -> list[dict[str, Any]]:
    """One iteration for each shell line, run in the workspace; gives the records after the baseline."""
    set_steps(project, *steps, **scope)
    return project.climb("iterate", "-n", str(len(steps)))[1:]


def better(score: int) -> str:
    return f"""printf '%s' '{answer(score)}' > answer.json"""
