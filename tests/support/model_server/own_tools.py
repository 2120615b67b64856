"""An edit made with the tools that an agent offers: its shell where it has one, else its way to write a file."""

import shlex
from collections.abc import Iterator

from model_server.asked import Asked
from model_server.moves import Edit, ToolCall

_SHELLS = dict.fromkeys(("Bash", "bash", "run_shell_command", "exec_command", "shell_command", "shell"), "command")
_SHELLS["exec_command"] = "cmd"
_WRITERS = {"Write": "file_path", "write": "filePath", "write_file": "file_path"}
_TAKES_WORDS = ("shell", "local_shell")
_ENDS_BY_COMMAND = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


def is_aside(asked: Asked) -> bool:
    """Whether an agent asks this for itself: without a tool, and not as one that edits by what it is told."""
    return not asked.tools and not _is_told(asked) and (not asked.nonce or "title" in asked.system)


def can_edit(asked: Asked) -> bool:
    """Whether the agent offers a tool that edits, or is one that edits by what it is told."""
    return _is_told(asked) or any(name in asked.tools for name in (*_SHELLS, *_WRITERS, "local_shell", "apply_patch"))


def steps(asked: Asked, edit: Edit) -> Iterator[ToolCall]:
    """The calls that make an edit, one after the other; none for an agent that edits by what it is told."""
    if _is_told(asked):
        return
    for command in edit.commands:
        yield run(asked, command) if isinstance(command, str) else command
    writer = next((name for name in _WRITERS if name in asked.tools), None)
    for path, content in edit.files.items():
        if asked.tools.get("apply_patch") == "custom" and "exec_command" not in asked.tools:
            lines = "".join(f"+{line}\n" for line in content.splitlines())
            yield ToolCall("apply_patch", f"*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\n")
        elif _has_shell(asked) or writer is None:
            yield run(asked, f"printf %s {shlex.quote(content)} > {shlex.quote(path)}")
        else:
            yield ToolCall(writer, {_WRITERS[writer]: path, "content": content})
    if _ENDS_BY_COMMAND in asked.prompt:
        yield run(asked, f"echo {_ENDS_BY_COMMAND}; printf '%s\\n' {shlex.quote(told(asked, edit))}")


def told(asked: Asked, edit: Edit) -> str:
    """The text after the calls; for an agent that edits by what it is told, with the whole files in it."""
    text = edit.text.replace("{nonce}", asked.nonce)
    if _is_told(asked):
        blocks = [f"{path}\n```\n{content.rstrip()}\n```" for path, content in edit.files.items()]
        return "\n\n".join([*blocks, text])
    return text


def _is_told(asked: Asked) -> bool:
    return not asked.tools and "*file listing*" in asked.system


def _has_shell(asked: Asked) -> bool:
    return any(name in asked.tools for name in (*_SHELLS, "local_shell"))


def run(asked: Asked, command: str) -> ToolCall:
    """The call that runs a command in the agent's shell."""
    for name in (*_SHELLS, "local_shell"):
        if name not in asked.tools:
            continue
        given: object = ["bash", "-c", command] if name in _TAKES_WORDS else command
        if name == "local_shell":
            return ToolCall(name, given)  # type: ignore[arg-type]
        more = {"description": "edits a file"} if name in ("bash", "Bash", "run_shell_command") else {}
        return ToolCall(name, {_SHELLS[name]: given, **more})
    raise LookupError(f"the agent has no shell among {sorted(asked.tools)}")
