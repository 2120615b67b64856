"""Editable installs of the repository itself: with them, every candidate would import the user's checkout."""

import functools
import os
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

from goalseek.disk import read_object
from goalseek.errors import GoalseekError
from goalseek.manifest.command_words import parse_command
from goalseek.manifest.tables import Manifest
from goalseek.sandbox import environment
from goalseek.sandbox.executables import first_line, resolve_links, which
from goalseek.sandbox.policy import SandboxPolicy
from goalseek.values import Finding, StopReason

_SITE_FOLDERS = ("lib*/python*/site-packages", "lib*/python*/dist-packages", "Lib/site-packages")
_PYTHONS = ("python3", "python")


def refuse_editable(manifest: Manifest, policy: SandboxPolicy) -> list[Finding]:
    """Raises GoalseekError for one in a shared environment or a verify command's; notes one of a Python on PATH."""
    if policy.mounts:  # an install leads to the candidate, which is seen at the repository's own path
        return []
    shared = ((f"scope.share: {name}", _installs_in(policy.folder / name, policy.top)) for name in manifest.scope.share)
    found = [(what, path) for what, paths in shared for path in paths]
    on_path: list[tuple[str, Path]] = []
    variables = environment.program_environment(manifest.env.verify, {}, policy.scratch)
    commands = [(command.run, policy.folder / command.cwd) for command in manifest.verify]
    commands += [(manifest.setup.run, policy.folder)] if manifest.setup else []
    for command, folder in commands:
        find = functools.partial(which, path=variables["PATH"], folder=folder)
        for word in sorted({word.text for word in parse_command(command).words(find)}):
            found += [(f"{word}, as the verifier finds it,", path) for path in _installs_for(find(word), policy)]
        on_path += [(word, path) for word in _PYTHONS for path in _installs_for(find(word), policy)]
    remedy = "run it with bubblewrap, where it means the candidate; or pip uninstall, then rm"
    for what, path in found:
        message = f"{what} has this repository installed editable ({path.name}): every candidate would measure your "
        raise GoalseekError(f"{message}checkout", f"{remedy} {path}", StopReason.SANDBOX)
    for word, path in on_path[:1]:
        text = f"{word} on PATH has this repository installed editable ({path.name}): what a verify command "
        return [Finding("note", f"{text}imports by it may be your checkout", f"{remedy} {path}")]
    return []


def _installs_for(program: Path | None, policy: SandboxPolicy) -> Iterator[Path]:
    """Those that a program imports, if it is a Python or a script of one."""
    if program is None or not (program.name.startswith(("python", "pypy")) or b"python" in first_line(program)):
        return
    prefixes = [name.parent.parent for name in resolve_links(program).names if name.parent.name == "bin"]
    environment = next((prefix for prefix in prefixes if (prefix / "pyvenv.cfg").exists()), None)
    if environment:
        prefixes = [environment]
    else:
        prefixes += [Path("/usr/local")] if Path("/usr") in prefixes else []  # Debian's Python installs there
        prefixes += [Path.home() / ".local"] if policy.level.name == "none" else []
    for prefix in dict.fromkeys(prefixes):
        yield from _installs_in(prefix, policy.top)


def _installs_in(environment: Path, top: Path) -> Iterator[Path]:
    found = (site for pattern in _SITE_FOLDERS for site in sorted(environment.glob(pattern)))  # lib before lib64
    for site in (environment, *found):
        for path in (*site.glob("*.pth"), *site.glob("*.egg-link")):
            lines = path.read_text("utf-8", "replace").splitlines()
            if any(_is_inside(line.strip(), top) for line in lines if line.strip() and not line.startswith("import")):
                yield path
        for path in site.glob("*.dist-info/direct_url.json"):
            install = read_object(path)
            url = urllib.parse.urlparse(install.get("url", ""))
            is_editable = install.get("dir_info", {}).get("editable") is True
            if is_editable and url.scheme == "file" and _is_inside(urllib.parse.unquote(url.path), top):
                yield path.parent


def _is_inside(path: str, top: Path) -> bool:
    return os.path.isabs(path) and Path(path).resolve().is_relative_to(top.resolve())
