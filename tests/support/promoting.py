"""A climb that is made once, and copied for each test: five iterations by an agent, of which 1, 3 and 5 were kept."""

from pathlib import Path

from project import FILES, Project

PAGE = "".join(f"line {number} of the page\n" for number in range(1, 21))
START = {**FILES, "src/page.txt": PAGE, "src/tool.sh": "echo tool\n", "src/old.txt": "old\n", "notes.txt": "notes\n"}
SCOPE = {"scope": {"writable": ["answer.json", "src/**"], "hidden": ["hidden/**"]}}

AGENT = """\
score() { printf '{"score": %s,\\n"size": 10\\n}\\n' "$1" > answer.json; }
case $GOALSEEK_ITERATION in
1) score 2; sed -i 's/^line 3 .*/line three/' src/page.txt; echo "Spell three";;
2) score 1; echo "A step back";;
3) score 3; python3 -c 'open("src/picture.bin", "wb").write(bytes(range(256)))'
   chmod +x src/tool.sh; rm src/old.txt; echo "Tidy up";;
4) score 2; echo "Another step back";;
5) score 4; sed -i 's/^line 15 .*/line fifteen/' src/page.txt; echo "Spell fifteen";;
*) score "$GOALSEEK_ITERATION"; echo "Further";;
esac
"""


def climb(top: Path) -> Project:
    """The climb; its agent lies beside it."""
    agent = top.parent / "agent.sh"
    agent.write_text(AGENT)
    provider = {"name": "command", "command": ["sh", str(agent)]}
    project = Project.make(top, files=START, manifest={**SCOPE, "provider": provider})
    outcomes = [record["outcome"] for record in project.climb("iterate", "-n", "5")]
    assert outcomes == ["baseline", "kept", "reverted", "kept", "reverted", "kept"]
    return project


def tree(project: Project, revision: str) -> str:
    """The whole tree of a revision: modes, blobs, paths."""
    return project.git("ls-tree", "-r", revision)


def subjects(project: Project, commits: str) -> list[str]:
    """The subjects of a range of commits, oldest first."""
    return project.git("log", "--reverse", "--format=%s", commits).splitlines()


def all_refs(project: Project) -> str:
    return project.git("for-each-ref")


def objects(project: Project) -> set[str]:
    """Every object of the repository, reachable or not."""
    format_ = "--batch-check=%(objectname)"
    return set(project.git("cat-file", "--batch-all-objects", "--unordered", format_).splitlines())


def hook(project: Project, name: str, script: str) -> None:
    place = project.top / ".git" / "hooks" / name
    place.parent.mkdir(exist_ok=True)
    place.write_text(f"#!/bin/sh\n{script}\n")
    place.chmod(0o755)
