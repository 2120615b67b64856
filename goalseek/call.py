"""How a provider is asked: prompt, brief and nonce in files of this call, and a way to start its program."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalseek import sandbox
from goalseek.beneath import clear
from goalseek.brief import make_brief, prompt, what_is_left
from goalseek.calls import Calls
from goalseek.capture import HeadAndTail
from goalseek.confines import Job
from goalseek.full_disk import refuse_full
from goalseek.programs import Finished
from goalseek.providers.provider import Call
from goalseek.run import Run, Setting
from goalseek.told import past_try
from goalseek.values import Context, PastTry, Plan
from goalseek.workspace import Workspace


@dataclass(frozen=True)
class Briefing:
    """What the proposals of one iteration are made from, gathered once."""

    context: Context
    history: tuple[PastTry, ...]
    brief: dict[str, Any]


def briefing_for(run: Run, setting: Setting, context: Context) -> Briefing:
    """The briefing of an iteration: its context, what was tried under this ruler, and the brief of both."""
    epoch = run.standing.epoch
    verify = setting.manifest.verify
    history = tuple(past_try(record, verify) for record in run.recent if record.epoch == epoch)
    left = what_is_left(setting.manifest.limits, run.standing.of_run(run.run_id))
    return Briefing(context, history, make_brief(context, history, setting.manifest, left))


def call_for(run: Run, setting: Setting, briefing: Briefing, phase: str, plan: Plan | None, calls: Calls) -> Call:
    """One question to the provider, in the workspace. A program that it starts is among ``calls`` before it starts."""
    manifest, context, brief = setting.manifest, briefing.context, briefing.brief
    nonce = run.seal.digest("nonce", run.run_id, str(context.iteration), phase)[:6].upper()
    text = prompt(phase, context, manifest, brief, nonce, plan)
    workspace = run.workspace(setting)
    folder = workspace.root / run.places.prefix
    files, confines = run.places.call, run.confines

    def start(arguments: Sequence[str], more: Mapping[str, str]) -> Finished:
        clear(files)
        files.mkdir(parents=True)
        (files / "usage.json").touch()
        (files / "prompt.md").write_text(text, encoding="utf-8", errors="replace")
        (files / "brief.json").write_text(json.dumps(brief, indent=1) + "\n")
        given = {
            "GOALSEEK_PROJECT_ROOT": str(confines.seen_at(workspace.root, folder)).rstrip("/"),
            "GOALSEEK_ITERATION": str(context.iteration),
            "GOALSEEK_PHASE": phase,
            "GOALSEEK_PROMPT": str(files / "prompt.md"),
            "GOALSEEK_BRIEF": str(files / "brief.json"),
            "GOALSEEK_NONCE": nonce,
            "GOALSEEK_USAGE": str(files / "usage.json"),
            "GOALSEEK_METRIC": manifest.metric.name,
            "GOALSEEK_DIRECTION": manifest.metric.direction,
            "GOALSEEK_INCUMBENT": repr(context.incumbent_value),
        }
        environment = sandbox.environment(manifest.env.agent, {**given, **more}, run.places.scratch / "tmp")
        own = _in_checkout(Path(arguments[0]), confines.top)
        job = Job(
            tree=workspace.root,
            commands=[list(arguments)],
            readable=(files / "prompt.md", files / "brief.json", *own),
            writable=(files / "usage.json",),
            network=manifest.sandbox.agent_network,
        )
        timeout = run.provider_table().timeout
        stdin = text.encode("utf-8", "replace")
        stands_in = [place for path in own if not (place := workspace.root / path.relative_to(confines.top)).exists()]
        ready = confines.launch(job, arguments, environment, folder)
        calls.begin(run.last_phase)
        try:
            finished = run.programs.supervise(
                ready.arguments,
                ready.folder,
                ready.environment,
                HeadAndTail(),
                timeout,
                stdin,
                run.watch.output,
                ready.is_cage,
                ready.restriction,
            )
        finally:
            for place in stands_in if confines.mounts else ():  # the empty file on which the program was mounted
                clear(place)
        calls.ended(finished.killed)
        refuse_full(files)  # half an edit is no proposal
        return finished

    return Call(
        phase=phase,
        context=context,
        history=briefing.history,
        folder=folder,
        writable=workspace.remembered("writable", lambda: _writable(run, setting, workspace)),
        prompt=text,
        brief=brief,
        nonce=nonce,
        metric=manifest.metric.name,
        direction=manifest.metric.direction,
        start=start,
        usage_file=files / "usage.json",
    )


def _in_checkout(program: Path, top: Path) -> tuple[Path, ...]:
    """The agent's own program where it is a file of the user's checkout: that one is run, not the workspace's."""
    return (program,) if program.is_relative_to(top) and program.is_file() else ()


def _writable(run: Run, setting: Setting, workspace: Workspace) -> tuple[str, ...]:
    """The existing files that the provider may edit, as it names them."""
    cut, kind = len(run.places.prefix), setting.scope.kind
    return tuple(path[cut:] for path in workspace.tree.entries if kind(path) == "writable")
