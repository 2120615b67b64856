"""What the README prints works as printed, and so do the guide's first manifests."""

import hashlib
import re
import shlex
from pathlib import Path

import pages
import pytest
import recipes
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


def manifest(words: str) -> str:
    return pages.block_with(recipes.pages()["First manifests"], "toml", words)


@pytest.mark.slow
def test_python_and_json_and_the_commands_of_the_quick_start(make_project: Projects) -> None:
    project = make_project(files=PYTHON, manifest=manifest('"wine"') + '\n[provider]\nname = "tune"\n')
    commands = [line for body in blocks("sh") for line in body.splitlines() if line.startswith("goalseek ")]
    words = [shlex.split(command, comments=True)[1:] for command in commands]
    assert [found[0] for found in words[:2]] == ["demo", "init"] and len(words) == 9
    for found in words[2:]:
        ended = project.run(*found)
        assert ended.exit_code == 0, (found, ended.stderr)
    assert best(project) == 1 and (project.folder / "gain.tar").exists()
    assert "+STEP = 7 " in project.git("diff", "main", "faster")


@pytest.mark.needs("bwrap")
def test_candidate_code_cannot_open_the_hidden_files_of_the_quick_start(make_project: Projects) -> None:
    project = make_project(files=PYTHON, manifest=manifest('"wine"') + '\n[provider]\nname = "scripted"\n')
    project.write({"moves.toml": tomli_w.dumps({"move": [{"title": "steal", "files": {"train.py": STEAL}}]})})
    project.check("iterate")
    record = project.iterations()[1]
    assert record["reason"] == "verify_failed" and "No such file" in record["why"]


@pytest.mark.slow
@pytest.mark.needs("bwrap", "c++")
def test_cpp_and_time_of_the_quick_start(make_project: Projects) -> None:
    project = make_project(files=CPP, manifest=manifest('"fast"') + '\n[provider]\nname = "scripted"\n')
    moves = [{"title": "forge", "files": {"src/main.cpp": FORGE}}, {"title": "fast", "files": {"src/main.cpp": READ}}]
    project.write({"moves.toml": tomli_w.dumps({"move": moves})})
    project.check("iterate", "-n", "2")
    base, forged, fast = project.iterations()
    assert base["metric"]["value"] > 0.4 > fast["metric"]["value"]
    assert (forged["reason"], fast["reason"]) == ("verify_failed", "better")
    assert "check ended with 1" in forged["why"]


def test_text_and_a_script_of_the_quick_start(make_project: Projects) -> None:
    project = make_project(files=TEXT | {"propose.sh": SCRIPT}, manifest=manifest('"spam"'))
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
    """The commit is another one, and a terminal cuts lines to its width. A better number was not kept."""
    command, *lines = pages.block_with(README, "console", "goalseek demo").splitlines()
    printed = project.check(*shlex.split(command)[2:], "fresh")
    told = [re.sub(r" at [0-9a-f]{12}\b", " at COMMIT", line) for line in printed.splitlines()]
    assert len(lines) == 5
    for line in lines:
        wanted = re.sub(r" at [0-9a-f]{12}\b", " at COMMIT", line).rstrip("…")
        assert any(line.startswith(wanted) for line in told), (line, printed)
    kept, looked_better = (line.split() for line in lines[-2:])
    assert (kept[1], looked_better[1]) == ("kept", "reverted") and float(looked_better[3]) < float(kept[3])


def test_each_set_up_is_one_command_that_continuous_integration_takes_from_here() -> None:
    lines = [line for body in blocks("sh") for line in body.splitlines() if "pip install" in line]
    assert [line.endswith(("goalseek demo", "-m pytest -n 2")) for line in lines] == [True, True]
    ci = (Path(__file__).parents[2] / ".ci" / "run").read_text()
    assert all(f"readme '{words}'" in ci for words in ("goalseek demo$", "python -m pytest", "uv tool install"))


def test_the_first_page_is_short_and_in_the_order_of_a_first_day() -> None:
    assert len(README.splitlines()) <= 160
    heads = ["own repository", "your agent", "Overnight", "morning", "kept", "cheat", "compares", "Tests"]
    assert all(re.search(head, line) for head, line in zip(heads, re.findall("^## .*", README, re.M), strict=True))


def test_the_table_of_attacks_is_what_the_red_team_asserts() -> None:
    assert table.PAGE.read_text() == table.page(), "write it again: python tests/scenarios/red_team/table.py"
    attacks = [attack for found in table.groups().values() for attack in found]
    assert len(attacks) >= 40 and all(attack.told for attack in attacks)
