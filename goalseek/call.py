"""How a provider is asked: prompt, brief and nonce in files of this call, and a way to start its program."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from goalseek import process, sandbox
from goalseek.brief import make_brief, prompt, what_is_left
from goalseek.capture import HeadAndTail
from goalseek.checkout import clear
from goalseek.process import Finished
from goalseek.providers.provider import Call
from goalseek.run import Run, Setting
from goalseek.values import Context, Plan


def call_for(run: Run, setting: Setting, context: Context, phase: str, plan: Plan | None) -> Call:
    """One question to the provider, in the workspace."""
    manifest, standing = setting.manifest, run.standing
    brief = make_brief(context, manifest, what_is_left(manifest.limits, standing.spend))
    nonce = run.seal.of("nonce", run.run_id, str(context.iteration), phase)[:6].upper()
    text = prompt(phase, context, manifest, brief, nonce, plan)
    workspace = run.workspace(setting)
    folder = workspace.root / run.places.prefix
    files = run.places.scratch / "call"

    def start(arguments: Sequence[str], more: Mapping[str, str]) -> Finished:
        clear(files)
        (files / "tmp").mkdir(parents=True)
        (files / "prompt.md").write_text(text, encoding="utf-8", errors="replace")
        (files / "brief.json").write_text(json.dumps(brief, indent=1) + "\n")
        given = {
            "GOALSEEK_PROJECT_ROOT": str(folder).rstrip("/"),
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
        environment = sandbox.environment(manifest.env.agent, {**given, **more}, files / "tmp")
        timeout = manifest.provider.timeout if manifest.provider else None
        stdin = text.encode("utf-8", "replace")
        return process.supervise(
            arguments, folder, environment, HeadAndTail(), timeout, stdin, on_output=run.watch.output
        )

    writable = tuple(
        path[len(run.places.prefix) :] for path in workspace.tree.entries if setting.scope.kind(path) == "writable"
    )
    return Call(
        phase=phase,
        context=context,
        folder=folder,
        writable=writable,
        prompt=text,
        brief=brief,
        nonce=nonce,
        metric=manifest.metric.name,
        direction=manifest.metric.direction,
        start=start,
        usage_file=files / "usage.json",
    )
