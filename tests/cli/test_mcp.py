"""``goalseek mcp``: each tool is a command of goalseek's own, for an agent that speaks the protocol."""

import asyncio
import json
import re
import sys
import tomllib
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from case_projects import cases_project, right
from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult
from project import MANIFEST, Project, answer, home, until
from test_try import FIRST, WRITABLE, outcomes

Call = Callable[..., Coroutine[Any, Any, CallToolResult]]


@pytest.fixture
def checkout(tmp_path: Path) -> Project:
    return Project.make(tmp_path / "p", files=FIRST, manifest=tomli_w.dumps({**MANIFEST, **WRITABLE}))


def talk(project: Project, act: Callable[[Client, Call], Coroutine[Any, Any, None]]) -> None:
    """Acts as a client of a server of its own."""

    async def run() -> None:
        server = StdioServerParameters(command=sys.executable, args=["-m", "goalseek", "mcp"], cwd=project.top)
        async with Client(server) as client:

            async def call(tool: str, **given: Any) -> CallToolResult:
                return await client.call_tool(tool, given)

            await act(client, call)

    asyncio.run(asyncio.wait_for(run(), 120))


def text(result: CallToolResult) -> str:
    return "".join(part.text for part in result.content if part.type == "text")


def test_a_climb_is_driven_by_its_tools(checkout: Project) -> None:
    async def act(client: Client, call: Call) -> None:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names == ["brief", "try", "wait", "status", "log", "show", "direct", "stop"], "the others are a person's"
        refused = await call("brief")
        assert refused.is_error and "nothing is measured yet" in text(refused)
        checkout.write({"answer.json": answer(2)})
        kept = await call("try", summary="--two", why="-because")
        assert text(kept).startswith("iteration 1 kept: 2 beats 1 by 1\nscore 2 against 1")
        assert kept.structured_content and kept.structured_content["hypothesis_summary"] == "--two"
        assert "-because" in (checkout.run_folder(1) / "plan.md").read_text()
        checkout.write({"answer.json": answer(1.5)})
        assert (await call("try")).structured_content["outcome"] == "reverted"  # type: ignore[index]
        assert "answer.json" in text(await call("try", restore=True))
        assert (checkout.top / "answer.json").read_text() == answer(2)
        assert "It is 2 now" in text(await call("brief"))
        log = await call("log", last=2)
        assert [one["iteration"] for one in log.structured_content["records"]] == [1, 2]  # type: ignore[index]
        assert "+" in text(await call("show", iteration="1", diff=True))
        assert (await call("show", iteration="--output")).is_error
        assert (await call("direct", text="-n more")).structured_content["text"] == "-n more"  # type: ignore[index]
        assert (await call("status")).structured_content["last"]["iteration"] == 2  # type: ignore[index]
        assert not (await call("stop")).is_error
        (record,) = (await client.read_resource("goalseek://records/1")).contents
        assert json.loads(record.text)["outcome"] == "kept"  # type: ignore[union-attr]

    talk(checkout, act)
    assert [outcome for _, outcome, _ in outcomes(checkout)] == ["baseline", "kept", "reverted"]


def test_what_takes_longer_than_its_wait_is_waited_for_by_its_number(checkout: Project) -> None:
    async def act(client: Client, call: Call) -> None:
        checkout.write({"answer.json": answer(2), "notes.txt": "wait\n"})
        pending = await call("try", wait_seconds=0)
        assert "waits for its turn" in text(pending) or "is being measured" in text(pending)
        await asyncio.to_thread(until, lambda: (checkout.run_folder(1) / "candidate.json").exists())
        pending = await call("wait", wait_seconds=0)
        assert pending.structured_content and pending.structured_content["iteration"] == 1
        home("go").touch()
        assert text(await call("wait", iteration=1)).startswith("iteration 1 kept")

    talk(checkout, act)


def test_without_the_package_it_names_the_extra(checkout: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(checkout.folder / "elsewhere"))
    broken = checkout.folder / "elsewhere" / "mcp"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError\n")
    done = checkout.start("mcp").communicate(timeout=60)
    assert "pip install 'goalseek[mcp]'" in done[1]


def test_of_cases_it_tells_counts(tmp_path: Path) -> None:
    project = cases_project(tmp_path / "p")
    manifest = tomllib.loads(project.manifest.read_text())
    del manifest["provider"]
    project.set_manifest(tomli_w.dumps(manifest))
    project.commit("an agent at the wheel")

    async def act(client: Client, call: Call) -> None:
        project.write({"answer.json": right(*range(14))})
        answers = [await call("try"), await call("wait"), await call("show", iteration="0"), await call("log")]
        answers += [await call("show", iteration="1"), await call("status"), await call("brief")]
        contents = [(await client.read_resource(f"goalseek://records/{number}")).contents[0] for number in (0, 1)]
        told = [f"{text(one)} {json.dumps(one.structured_content)}" for one in answers]
        told += [content.text for content in contents]  # type: ignore[union-attr]
        assert not any(re.search(r'"(case_ids|asked|scores)"|\bq\d', one) for one in told)
        assert answers[0].structured_content["metric"]["cases"]["won"] == 14  # type: ignore[index]
        assert len(answers[0].structured_content["runs"]) > 2  # type: ignore[index]

    talk(project, act)
    assert all("cases" in run for record in project.iterations() for run in record["runs"])
