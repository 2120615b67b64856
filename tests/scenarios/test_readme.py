"""What the README prints works as printed."""

import hashlib
import re
import shlex
from pathlib import Path

import pages
import pytest
import tomli_w
from project import Project, Projects
from red_team import table

README = pages.README.read_text()
TRAIN = """\
STEP = 3  # goalseek: int 1..9
with open("predictions.csv", "w") as file:
    for line in open("data.csv"):
        print(int(line) % STEP, file=file)
"""
STEAL = 'import shutil\nshutil.copy("hidden/labels.csv", "predictions.csv")\n'
SCORE = """\
import json, os
predicted, labels = (open(path).read().split() for path in ("predictions.csv", "hidden/labels.csv"))
right = sum(one == other for one, other in zip(predicted, labels, strict=True))
with open(os.environ["GOALSEEK_RUN_DIR"] + "/metrics.json", "w") as file:
    json.dump({"accuracy": right / len(labels)}, file)
"""
PYTHON = {
    "train.py": TRAIN,
    "data.csv": "".join(f"{number}\n" for number in range(40)),
    "hidden/labels.csv": "".join(f"{number % 7}\n" for number in range(40)),
    "hidden/score.py": SCORE,
}
READ = """\
#include <iostream>
#include <thread>
int main() {
    long sum = 0;
    for (long number; std::cin >> number;) sum += number;
    // wait
    std::cout << sum << '\\n';
}
"""
FORGE = """\
#include <cstdlib>
int main() { return std::system("sha256sum answer.txt > hidden/answer.sha256"); }
"""
CPP = {
    "src/main.cpp": READ.replace("// wait", "std::this_thread::sleep_for(std::chrono::milliseconds(400));"),
    "hidden/input.txt": "1 2 3\n",
    "hidden/answer.sha256": hashlib.sha256(b"6\n").hexdigest() + "  answer.txt\n",
}
SCRIPT = pages.block_with((pages.GUIDE / "providers.md").read_text(), "sh", "words.txt")
WORDS = """\
wrong=$(sort marked.txt hidden/spam.txt | uniq -u | wc -l)
echo "right: $(($(wc -l < mails.txt) - wrong))"
"""
TEXT = {
    "words.txt": "winner\n",
    "mails.txt": "prize prize prize\nprize Prize\nwinner\n",
    "hidden/spam.txt": "prize prize prize\nprize Prize\nwinner\n",
    "hidden/score.sh": WORDS,
}


def blocks(language: str) -> list[str]:
    return pages.blocks_in(README, language)


def best(project: Project) -> float:
    return max(
        record["metric"]["value"] for record in project.iterations() if record["outcome"] in ("baseline", "kept")
    )


def block_with(language: str, words: str) -> str:
    return pages.block_with(README, language, words)


@pytest.mark.slow
def test_python_and_json_and_the_commands_of_the_quick_start(make_project: Projects) -> None:
    project = make_project(files=PYTHON, manifest=block_with("toml", '"wine"') + '\n[provider]\nname = "tune"\n')
    commands = [line for body in blocks("sh") for line in body.splitlines() if line.startswith("goalseek ")]
    assert len(commands) == 5
    for command in commands:
        ended = project.run(*shlex.split(command, comments=True)[1:])
        assert ended.exit_code == 0, (command, ended.stderr)
    assert best(project) == 1
    promoted = project.run("promote", "--branch", "better")
    assert promoted.exit_code == 0 and "+STEP = 7 " in project.git("diff", "main", "better")


@pytest.mark.needs("bwrap")
def test_candidate_code_cannot_open_the_hidden_files_of_the_quick_start(make_project: Projects) -> None:
    project = make_project(files=PYTHON, manifest=block_with("toml", '"wine"') + '\n[provider]\nname = "scripted"\n')
    project.write({"moves.toml": tomli_w.dumps({"move": [{"title": "steal", "files": {"train.py": STEAL}}]})})
    project.check("iterate")
    record = project.iterations()[1]
    assert record["reason"] == "verify_failed" and "No such file" in record["why"]


@pytest.mark.slow
@pytest.mark.needs("bwrap", "c++")
def test_cpp_and_time_of_the_quick_start(make_project: Projects) -> None:
    project = make_project(files=CPP, manifest=block_with("toml", '"fast"') + '\n[provider]\nname = "scripted"\n')
    moves = [{"title": "forge", "files": {"src/main.cpp": FORGE}}, {"title": "fast", "files": {"src/main.cpp": READ}}]
    project.write({"moves.toml": tomli_w.dumps({"move": moves})})
    project.check("iterate", "-n", "2")
    base, forged, fast = project.iterations()
    assert base["metric"]["value"] > 0.4 > fast["metric"]["value"]
    assert (forged["reason"], fast["reason"]) == ("verify_failed", "better")
    assert "check ended with 1" in forged["why"]


def test_text_and_a_script_of_the_quick_start(make_project: Projects) -> None:
    project = make_project(files=TEXT | {"propose.sh": SCRIPT}, manifest=block_with("toml", '"spam"'))
    (project.folder / "propose.sh").chmod(0o755)
    project.commit("executable")
    for _ in range(20):  # by chance
        project.check("iterate")
        if best(project) == 3:
            break
    kept = project.iterations()[-1]
    assert (kept["outcome"], kept["metric"]["value"]) == ("kept", 3)
    assert kept["hypothesis_summary"].lower() == "mark mails with the word prize"


@pytest.mark.slow
def test_the_transcript_is_what_the_demo_prints(project: Project) -> None:
    """The commit is another one, and a terminal cuts lines to its width."""
    command, *lines = block_with("console", "iterate -n 5").splitlines()
    printed = project.check("demo", "digits", "fresh", *shlex.split(command)[3:])
    told = [re.sub(r" at [0-9a-f]{12}\b", " at COMMIT", line) for line in printed.splitlines()]
    assert len(lines) == 7
    for line in lines:
        wanted = re.sub(r" at [0-9a-f]{12}\b", " at COMMIT", line).rstrip("…")
        assert any(line.startswith(wanted) for line in told), (line, printed)


def test_each_set_up_is_one_command_that_continuous_integration_takes_from_here() -> None:
    lines = [line for body in blocks("sh") for line in body.splitlines() if "pip install" in line]
    assert [line.endswith(("goalseek demo", "-m pytest -n 2")) for line in lines] == [True, True]
    ci = (Path(__file__).parents[2] / ".ci" / "run").read_text()
    assert "readme 'goalseek demo$'" in ci and "readme 'python -m pytest'" in ci


def test_the_table_of_attacks_is_what_the_red_team_asserts() -> None:
    assert table.PAGE.read_text() == table.page(), "write it again: python tests/scenarios/red_team/table.py"
    attacks = [attack for found in table.groups().values() for attack in found]
    assert len(attacks) >= 40 and all(attack.told for attack in attacks)
