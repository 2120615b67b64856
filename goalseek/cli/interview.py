"""The questions that ``init`` asks at a terminal, and the reading of their answers."""

import os
import posixpath
import re
import shlex
import shutil
import sys
from collections.abc import Collection, Set
from pathlib import Path

from msgspec.structs import asdict, replace

from goalseek.cli.streams import YES, ask_person
from goalseek.doctor import first_manifest
from goalseek.doctor.first_manifest import Answers
from goalseek.doctor.isolation import hidden_tests
from goalseek.errors import GitFailed, GoalseekError
from goalseek.git.command import git
from goalseek.git.ignore import matcher
from goalseek.git.location import locate
from goalseek.git.repository import Repository
from goalseek.humanize import abbreviate
from goalseek.manifest import fields, rules, tables
from goalseek.manifest.command_words import parse_command
from goalseek.project.paths import refuse_name_of_other_folder

_SHELL_WORDS = ". : alias case cd command eval exec export for if read set time trap ulimit umask until while".split()
_TIME = re.compile("((run|wall)_?)?time")
MAY_BE_EMPTY = ("hidden", "share")
_QUESTIONS = {
    "name": "name of the project",
    "writable": "files or globs that may change, separated by spaces",
    "hidden": "globs hidden from the agent (the right answers, the scoring script), or none",
    "run": "command that builds or runs the candidate (hidden files are absent), or none",
    "score": "command that scores its output (hidden files are present, the candidate's code is absent);\n"
    "    time COMMAND if the number is its run time; none if the command above gives the number",
    "check": "    command that checks the output of the timed one (hidden files are present), or none",
    "outputs": "    globs of the files that the first command leaves for the next",
    "timing_outputs": "    globs of the files that the timed command leaves for the check",
    "share": "    paths that the commands need and git ignores (shown read-only), or none",
    "reading": "how to read the number, in one of two forms:\n"
    "    maximize accuracy               the key accuracy of the JSON in $GOALSEEK_RUN_DIR/metrics.json\n"
    "    minimize /loss: ([0-9.]+)/      the command's output\n   ",
}
_EXAMPLES = {
    "writable": "experiment.py src/**",
    "hidden": "score.py labels/**",
    "outputs": "predictions.csv",
    "timing_outputs": "answer.txt",
    "share": ".venv data",
}
_OTHER_PREFIX = "climbs"
_CONSENT = """\
    {command} is hidden: candidate code would run beside the hidden files, and could read them.
    Answer no to name the command that runs the candidate first, and then this one, which scores (safe).
    Answer yes to let candidate code read the hidden files. Run it beside them? yes or no"""


class Interview:
    """``paths`` are the committed files below the manifest's folder."""

    def __init__(self, folder: Path, paths: list[str]) -> None:
        self._folder = folder
        self.paths = paths
        self._is_time_offered = False

    def ask_all(self, answers: Answers, given: Set[str]) -> Answers:
        """Asks each question that is not ``given`` and that the others leave open; ``answers`` has the defaults."""
        for question in ("name", "writable", "hidden", "run"):
            if question not in given:
                answers = self.ask(question, answers)
        if not given & {"score", "timing"}:
            answers = self.ask("score", answers)
        if "hidden" not in given:
            script, glob = _scorer_to_hide(answers, self.paths)
            if script:
                print(f"    {script} scores, and is not hidden: hide {glob}?", file=sys.stderr)
                answers = self.ask("hidden", replace(answers, hidden=(*answers.hidden, glob)))
        if answers.run and (answers.score or answers.timing) and "outputs" not in given:
            answers = self.ask("outputs", answers)
        if answers.timing and answers.score and "timing_outputs" not in given:
            answers = self.ask("timing_outputs", answers)
        return answers if answers.timing or given >= {"direction", "query"} else self.ask("reading", answers)

    def ask_again(self, question: str, answers: Answers) -> Answers:
        """Asks one question and those that its answer opens; the scoring command before how the number is read."""
        is_unscored = question == "reading" and bool(answers.direction) and not (answers.score or answers.timing)
        answers = self.ask("score" if is_unscored else question, answers)
        is_open = {key for key in ("outputs", "timing_outputs") if not getattr(answers, key)}
        is_open |= {"direction"} if is_unscored else set()
        return self.ask_all(answers, asdict(answers).keys() - is_open)

    def ask(self, question: str, answers: Answers) -> Answers:
        if question == "name":
            return replace(answers, name=ask_person(_QUESTIONS[question], answers.name, self._read_name))
        asks = {"run": self._ask_run, "score": self._ask_score, "reading": self._ask_reading}
        if question in asks:
            return asks[question](answers)
        patterns = getattr(answers, question) or guess_outputs(question, answers, self.paths)
        if question == "hidden":
            patterns = fitting_hidden(replace(answers, hidden=patterns), self.paths)
        shown = format_globs(patterns) or ("none" if question in MAY_BE_EMPTY else "")

        def read(text: str) -> tuple[str, ...]:
            self.paths = committed_files(self._folder)  # a person may commit before they answer
            if question in MAY_BE_EMPTY and text == "none":
                return ()
            committed = self.paths if question in ("writable", "hidden") else None
            return parse_globs(text, committed, self._folder, _EXAMPLES[question])

        return replace(answers, **{question: ask_person(_QUESTIONS[question], shown, read)})

    def _read_name(self, text: str) -> str:
        if not re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", text):
            raise GoalseekError(f"{text!r}: a name is made of a-z, 0-9 and -")
        refuse_name_of_other_folder(text, self._folder)
        return text

    def _ask_reading(self, answers: Answers) -> Answers:
        named = f"{answers.metric} /{answers.regex}/".lstrip()
        default = f"{answers.direction} {answers.cases or answers.query or named}" if answers.direction else ""
        direction, query, regex, name = ask_person(_QUESTIONS["reading"], default, parse_reading)
        timed = answers.score or answers.run
        if not (_TIME.fullmatch(query) and timed) or self._is_time_offered:
            name = name or ("" if answers.regex and answers.direction else answers.metric)
            return replace(answers, direction=direction, query=query, regex=regex, cases="", metric=name)
        self._is_time_offered = True  # once, since a file may have a key of that name
        print(f"    did you mean: time {timed}", file=sys.stderr)
        run = answers.run if answers.score else ""
        answers = self.ask_again("score", replace(answers, run=run, timing=timed, score=""))
        return replace(answers, direction=direction) if answers.timing else self.ask("reading", answers)

    def _ask_run(self, answers: Answers) -> Answers:
        while True:
            command = self._ask_command("run", answers.run or ("none" if answers.score else ""))
            sees = "both" if first_manifest.names_hidden(command, answers.hidden) else ""
            if not sees or ask_person(_CONSENT.format(command=command), "no", str.lower) in YES:
                answers = replace(answers, run=command, sees=sees)
                break
        if globs := hidden_tests(_candidate_command(answers), answers.hidden, self.paths):
            print(f"    {format_globs(globs)} is hidden from this command", file=sys.stderr)
            return self.ask("hidden", answers)
        return answers

    def _ask_score(self, answers: Answers) -> Answers:
        none = "" if answers.hidden and answers.sees != "both" else "none"
        default = f"time {answers.timing}" if answers.timing else answers.score or none
        command = self._ask_command("score", default)
        if timed := timed_command(command):
            check = self._ask_command("check", answers.score if answers.timing and answers.score else "none")
            checked = answers.timing_outputs if check else ()
            return replace(answers, timing=timed, score=check, timing_outputs=checked)
        outputs = () if not command else answers.outputs if answers.run else answers.writable
        return replace(answers, score=command, timing="", timing_outputs=(), outputs=outputs)

    def _ask_command(self, question: str, default: str) -> str:
        text = ask_person(
            _QUESTIONS[question], default, lambda text: read_command(text, self._folder, question == "run")
        )
        return "" if text == "none" else first_manifest.with_own_python(text, self._folder)


def timed_command(text: str) -> str:
    """The command of ``time COMMAND``; "" for any other text."""
    match = re.fullmatch(r"time\s+(\S.*)", text)
    return match[1] if match else ""


def _candidate_command(answers: Answers) -> tables.VerifyCommand:
    return tables.VerifyCommand(run=answers.run, sees="both" if answers.sees == "both" else "candidate")


def fitting_hidden(answers: Answers, paths: Collection[str]) -> tuple[str, ...]:
    """The hidden globs without files that may change, or that the candidate's command names or runs as tests."""
    unfit = {*answers.writable, *hidden_tests(_candidate_command(answers), answers.hidden, paths)}
    unfit |= {glob for glob in answers.hidden if first_manifest.names_hidden(answers.run, [glob])}
    return tuple(glob for glob in answers.hidden if glob not in unfit)


def _scorer_to_hide(answers: Answers, paths: Collection[str]) -> tuple[str, str]:
    """Which of the committed ``paths`` scores, and the glob that hides it; "" twice if none is left to hide.

    The glob is that of its folder, unless the candidate's command names a file there, or a candidate may change one.
    """
    changeable = set(filter(matcher(answers.writable), paths))
    is_hidden = matcher(answers.hidden)
    others = {path for path in paths if path not in answers.writable and not is_hidden(path)}
    script = next((path for path in parse_command(answers.score).files(".") if path in others), "")
    glob = f"{posixpath.dirname(script)}/**" if "/" in script else script
    named = (word.removeprefix("./") for word in parse_command(answers.run).plain)
    return script, script if any(map(matcher((glob,)), (*changeable, *named))) else glob


def committed_files(folder: Path) -> list[str]:
    """The files of HEAD below the folder. Raises GoalseekError without a repository or a commit."""
    with Repository(locate(folder), "init") as repository:
        repository.head()
        variables = repository.folder_variables()  # its objects are not asked: they would make a folder of goalseek's
        listing = git("ls-tree", "-r", "-z", "--name-only", "HEAD", folder=folder, variables=variables)
    return [os.fsdecode(path) for path in listing.split(b"\0") if path]


def free_branch_prefix(folder: Path, prefix: str, asks: bool) -> str:
    """The prefix; if a branch of the user's is in its way, their answer, or "climbs" if nobody is asked."""

    def read(text: str) -> str:
        if not fields.is_branch_prefix(text):
            raise GoalseekError(f"{text!r} cannot begin the name of a branch", "for example: climbs")
        with Repository(locate(folder), "init", text) as repository:
            repository.refuse_conflicting_branch()
        return text

    try:
        return read(prefix)
    except GoalseekError as error:
        print(error.message, file=sys.stderr)
        if asks:
            return ask_person("    prefix of goalseek's branch", _OTHER_PREFIX, read)
        print(f"the name of goalseek's branch begins with {_OTHER_PREFIX}", file=sys.stderr)
        return read(_OTHER_PREFIX)


def parse_globs(text: str, paths: list[str] | None, folder: Path, example: str = "") -> tuple[str, ...]:
    """Quotes hold a glob with a space. Raises GoalseekError for none, or one that leads out or matches nothing."""
    patterns = tuple(quoted or plain for quoted, plain in re.findall(r'"([^"]+)"|([^\s,]+)', text))
    if not patterns:
        raise GoalseekError("name at least one", f"for example: {example}")
    if re.match(r"(maximi|minimi)[sz]e[\s:]+\S", text):
        raise GoalseekError(f"{text!r} names a metric, not files", "name files here")
    if leading_out := [pattern for pattern in patterns if ".." in pattern.split("/")]:
        message = f"{leading_out[0]!r}: paths cannot leave the manifest's folder"
        raise GoalseekError(message, "run goalseek init in the top folder of the repository")
    for pattern in patterns if paths is not None else ():
        if not any(map(matcher((pattern,)), paths or ())):
            below = list(filter(matcher((f"**/{pattern.removeprefix('/')}",)), paths or ()))
            why = f"did you mean {abbreviate(below)}?" if below else _why_uncommitted(pattern, folder)
            raise GoalseekError(f"{pattern!r} matches no committed file", why)
    return patterns


def _why_uncommitted(pattern: str, folder: Path) -> str:
    path = re.split(r"[*?[]", pattern)[0]
    path = path if path == pattern else path.rpartition("/")[0]
    if not path or not (folder / path).exists():
        return ""
    try:
        git("check-ignore", "--quiet", "--", path.rstrip("/"), folder=folder)
    except GitFailed:
        shown = shlex.quote(path)
        return f"{path} is not committed: git add {shown} && git commit, then answer again"
    return "git ignores it; commit it, or keep it outside the repository (goalseek help recipe-hidden)"


def guess_outputs(question: str, answers: Answers, paths: Collection[str]) -> tuple[str, ...]:
    """``question`` is ``outputs`` for the command that runs, ``timing_outputs`` for the timed one; others have none."""
    if question not in ("outputs", "timing_outputs"):
        return ()
    is_first = question == "outputs"
    following = (answers.timing or answers.score) if is_first else ""
    started = re.match(r"\./([\w./+-]+)", following)
    written = re.search(r"\s(?:-o\s+|>\s*)(?:\./)?(\w[\w./+-]*)", answers.run if is_first else answers.timing)
    names = [match[1] for match in (started, written) if match and match[1] not in paths]
    return tuple(names[:1])


def format_globs(patterns: tuple[str, ...]) -> str:
    return " ".join(f'"{pattern}"' if re.search(r"[\s,]", pattern) else pattern for pattern in patterns)


def read_command(text: str, folder: Path, is_first: bool) -> str:
    """The first command may make a program for the next one. Raises GoalseekError if a program or script is missing."""
    word = (text.removeprefix("time ").split() or [""])[0]
    if not text:
        raise GoalseekError("enter a command", f"for example: python {'experiment' if is_first else 'score'}.py")
    if not re.fullmatch(r"[\w./+-]+", word) or word in (*_SHELL_WORDS, "none"):
        return text
    is_there = (folder / word).is_file() or not is_first if "/" in word else shutil.which(word)
    if not (is_there or word.startswith("python")):
        raise GoalseekError(f"{word} is neither a program on PATH nor a file", "name the command that runs it")
    first = parse_command(text).commands[:1]  # the first command may make the program of the next
    scripts = [word.text for command in first for word in parse_command(command).words() if word.role == "script"]
    if scripts and re.fullmatch(r"[\w./+-]+\.\w+", scripts[0]) and not (folder / scripts[0]).exists():
        raise GoalseekError(f"{scripts[0]} does not exist", "write it first, or name another")
    return text


def parse_reading(text: str) -> tuple[str, str, str, str]:
    """Direction, query, regex and name of ``maximize accuracy`` or ``minimize [NAME] /took ([0-9.]+)s/``.

    Raises GoalseekError for any other text.
    """
    match = re.fullmatch(r"\s*(maximi|minimi)[sz]e\s*[\s:]\s*(\S.*?)\s*", text)
    if not match:
        hint = "maximize accuracy (in metrics.json), or minimize /took ([0-9.]+)s/ (in the command's output)"
        raise GoalseekError(f"{text!r} does not say how to read the number", hint)
    source = match[2]
    if re.fullmatch(r"\w+(\s+\w+)+", source):
        raise GoalseekError(f"a name has no blanks; did you mean {'_'.join(source.split())}?")
    named = re.fullmatch(r"([\w.-]+)\s+(/.+/)", source)
    name, source = (named[1], named[2]) if named else ("", source)
    is_regex = len(source) > 2 and source.startswith("/") and source.endswith("/")
    query, regex = ("", source[1:-1]) if is_regex else (source, "")
    for _, fault in rules.check_expressions((), tables.Reading(query=query or None, regex=regex or None)):
        raise GoalseekError(fault)
    return f"{match[1]}ze", query, regex, name
