"""The command line of each preset, its sessions, each call's charge in them, and providers of other packages."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_agents import COSTS, PROGRAMS, Fakes
from msgspec.structs import replace
from test_tune import call as tune_call

from goalseek.errors import GoalseekError, Rejected
from goalseek.manifest.tables import Price, ProviderTable
from goalseek.phase_values import Plan, Session
from goalseek.providers.coding_agent import session_after, usage_of_call
from goalseek.providers.command import CommandProvider
from goalseek.providers.fallback import Failed, ProviderChain
from goalseek.providers.preset import Answer
from goalseek.providers.provider import Call, CallHost, LaunchSpec, Prompts
from goalseek.providers.registry import load_maker, make_provider
from goalseek.sandbox.supervisor import ProgramResult
from goalseek.values import Usage

SKIPPING = ("--dangerously-skip-permissions", "--dangerously-bypass-approvals-and-sandbox", "yolo", "--auto", "--yes-always", "-y")  # fmt: skip

GOING_ON = ("claude", "codex", "gemini", "opencode")


class Asked(CallHost):
    """Calls to a provider and its fallbacks, whose programs are started without a sandbox and without waiting."""

    def __init__(self, folder: Path, name: str, confined: bool = False, **table: Any) -> None:
        self.chain = make_provider(ProviderTable(name=name, **table), folder)
        self.waits: list[tuple[float, str]] = []
        self.again: list[tuple[str, Usage]] = []
        self.left = 3600.0  # seconds that it may wait, all together
        self.started: list[LaunchSpec] = []
        self.sessions: dict[str, Session | None] = {}  # of the last call, by HOME
        self.home = folder / "agent-home"
        self.home.mkdir(exist_ok=True)
        (folder / "workspace").mkdir(exist_ok=True)
        self.prompt, self.phase = "improve it", "plan"
        (folder / "prompt.md").write_text(self.prompt)
        self._base = replace(
            tune_call(folder / "workspace", []),
            host=self,
            prompt_file=folder / "prompt.md",
            home_at=self.home,
            confined=confined,
        )

    def start(self, call: Call, asked: LaunchSpec) -> ProgramResult:
        self.started.append(asked)
        self.sessions[asked.home] = None
        for path, text in asked.home_files.items():
            (self.home / path).parent.mkdir(parents=True, exist_ok=True)
            (self.home / path).write_text(text)
        given = {"GOALSEEK_PHASE": self.phase, "GOALSEEK_NONCE": self._base.nonce, "GOALSEEK_ITERATION": "1"}
        environment = {**os.environ, **given, **asked.variables, "HOME": str(self.home)}
        stdin, folder = call.prompt.encode() if asked.has_input else b"", self._base.folder
        done = subprocess.run(
            asked.arguments, env=environment, input=stdin, capture_output=True, cwd=folder, timeout=120
        )
        return ProgramResult(done.returncode, 0.1, False, 0, done.stdout, done.stderr)

    def on_retry(self, why: str, usage: Usage, is_told: bool = False) -> None:
        self.again.append((why, usage))

    def save_session(self, session: Session) -> None:
        self.sessions[self.started[-1].home] = session

    def read_home(self, name: str, pattern: str) -> str:
        newest = sorted(self.home.glob(pattern), key=lambda path: path.stat().st_mtime_ns)[-1:]
        return "".join(path.read_text() for path in newest)

    def session(self, name: str, model: str) -> Session | None:
        found = self.sessions.get(name)
        return found if found and found.model == model else None

    def wait(self, seconds: float, why: str) -> bool:
        self.waits.append((seconds, why))
        self.left -= seconds if (fits := seconds <= self.left) else 0.0
        return fits

    def made(self) -> Call:
        return replace(self._base, phase=self.phase, prompts=lambda: Prompts(self.prompt))

    def plan(self) -> Any:
        self.phase = "plan"
        return self.chain.plan(self.made())

    def apply(self, plan: Plan | None = None, phase: str = "apply") -> Any:
        self.phase = phase
        return self.chain.apply(self.made(), plan or Plan("", "b"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_its_answers_are_read_and_a_repair_goes_on_where_its_apply_was(fake: Fakes, tmp_path: Path, name: str) -> None:
    made = fake(name)
    asked = Asked(tmp_path, name, model="m/large")
    reply = asked.plan()
    assert (reply.title, reply.text, reply.files) == ("a higher rate", "because", ("knobs.txt",))
    assert reply.usage == each(name)
    assert (reply.provider, reply.model) == (name, "m/large")
    plan = Plan(reply.title, "", usage=reply.usage, provider=name, model="m/large")
    changed = [asked.apply(plan, phase) for phase in ("apply", "repair", "repair")[: 3 if name in GOING_ON else 1]]
    assert [one.usage for one in changed] == [reply.usage] * len(changed), "of the session, what this call used"
    assert changed[0].title == "a higher rate" and (tmp_path / "workspace" / "knobs.txt").exists()
    assert any("m/large" in word for word in made.calls[1]["argv"])
    session = asked.sessions[name]
    assert bool(session) == (name in GOING_ON)
    assert went_on(asked) == [False, *[bool(session)] * len(changed)]
    assert not session or all(session.name in spec.arguments for spec in asked.started[1:])


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("confined", [True, False])
def test_permissions_are_skipped_in_a_sandbox_alone(tmp_path: Path, name: str, confined: bool) -> None:
    specs = [started(tmp_path, name, plan, confined=confined) for plan in (Plan("", ""), PLAN)]
    given = [(*spec.arguments, *spec.home_files.values()) for spec in specs]
    skips = [[word for word in words if word in SKIPPING] for words in given]
    assert bool(skips[1]) == confined and (not skips[0] or name != "aider"), skips
    has_one_mode = name == "mini-swe-agent" or (name == "codex" and confined)
    assert (given[0] == given[1]) == has_one_mode, "the others can read only while they plan"


@pytest.mark.parametrize("name", ["claude", "aider", "mini-swe-agent"])
def test_what_it_says_of_errors_is_no_failure_and_prose_is_no_plan(fake: Fakes, tmp_path: Path, name: str) -> None:
    fake(name).acts(always='say "Error: 401 Unauthorized, rate limit exceeded"')
    asked = Asked(tmp_path, name)
    assert asked.apply().title.startswith("Error: 401")
    with pytest.raises(Rejected) as caught:
        asked.plan()
    assert caught.value.reason == "no_plan" and asked.waits == []


PLAN = Plan("a", "b")


def started(folder: Path, name: str, plan: Plan = PLAN, **more: Any) -> LaunchSpec:
    """What a call starts to apply ``plan``, and with none to plan; ``more`` are fields of the call, or of the table."""
    fields = {key: more.pop(key) for key in ("writable", "search", "confined") if key in more}
    prompt = more.pop("prompt", "improve it")
    asked = Asked(folder, name, **{"command": ("true",), **more})
    asked.phase, asked.prompt = "apply" if plan.title else "plan", prompt
    call, editor = replace(asked.made(), **fields), asked.chain.editors[0]
    with pytest.raises(Failed):
        editor.apply(call, plan) if plan.title else editor.plan(call)
    return asked.started[-1]


@pytest.mark.elsewhere
def test_a_prompt_that_is_too_long_for_an_argument_is_read_from_its_file(tmp_path: Path) -> None:
    for letters, is_whole in ((128 * 1024 - 1, True), (128 * 1024, False)):
        prompt = "a" * letters
        argument = started(tmp_path, "mini-swe-agent", prompt=prompt, confined=True).arguments[-1]
        assert (argument == prompt) == is_whole and (str(tmp_path / "prompt.md") in argument) != is_whole


def test_aider_edits_what_its_plan_names_and_sees_a_map_while_it_plans(tmp_path: Path) -> None:
    files = tuple(f"src/{number}.py" for number in range(40))
    named = Plan("a", "b", ("src/7.py", "src/3.py", "new.py", "answer.json"))
    specs = [started(tmp_path, "aider", plan, writable=files) for plan in (Plan("", ""), named, Plan("a", "b"))]
    shown = [[word for word in spec.arguments if word in files] for spec in specs]
    assert shown == [[], ["src/3.py", "src/7.py"], list(files[:20])]
    assert ["--map-tokens" in spec.arguments for spec in specs] == [False, True, True]


@pytest.mark.parametrize("name", PROGRAMS)
def test_another_endpoint_is_given_as_each_agent_wants_it(tmp_path: Path, name: str) -> None:
    spec = started(tmp_path, name, model="p/m", endpoint="http://127.0.0.1:9/")
    assert "http://127.0.0.1:9" in json.dumps([spec.arguments, spec.variables])
    assert "9//v1" not in json.dumps(spec.arguments)


@pytest.mark.parametrize(
    ("name", "mark", "is_allowing"),
    [
        ("claude", "WebSearch,WebFetch", True),
        ("codex", 'web_search=\\"disabled\\"', False),
        ("gemini", ".gemini/policies/web.toml", False),
        ("opencode", "OPENCODE_PERMISSION", False),
    ],
)
def test_no_agent_searches_the_web_unless_it_may(tmp_path: Path, name: str, mark: str, is_allowing: bool) -> None:
    for search in (False, True):
        for plan in (Plan("", ""), Plan("a", "b")):
            spec = started(tmp_path, name, plan, search=search)
            told = json.dumps([spec.arguments, list(spec.variables), list(spec.home_files)])
            assert (mark in told) == (search == is_allowing)


def test_words_of_the_manifest_come_before_the_presets(tmp_path: Path) -> None:
    arguments = started(tmp_path, "claude", command=("true", "--mine")).arguments
    assert Path(arguments[0]).name == "true" and arguments[1:3] == ("--mine", "-p")
    with pytest.raises(GoalseekError, match="there is no program 'gone'") as caught:
        make_provider(ProviderTable(name="claude", command=("gone",)), tmp_path).editors[0].check()
    assert caught.value.exit_code == 3 and "npm install" in caught.value.hint


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets these variables, and no other credential."""

    def keep(*names: str) -> None:
        for name in [name for name in os.environ if name.endswith(("_API_KEY", "_TOKEN"))]:
            monkeypatch.delenv(name)
        for name in names:
            monkeypatch.setenv(name, "key-of-mine")

    keep()
    return keep


def test_a_key_goes_before_a_subscription_and_neither_reads_what_a_project_says(
    keys: Callable[..., None], tmp_path: Path
) -> None:
    for names in (("CLAUDE_CODE_OAUTH_TOKEN",), ("ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN")):
        keys(*names)
        spec = started(tmp_path, "claude")
        assert {"--safe-mode", "--setting-sources"} <= set(spec.arguments) and spec.login.variables == names[:1]
        is_subscription = make_provider(ProviderTable(name="claude"), tmp_path).editors[0].is_subscription()
        assert is_subscription == (len(names) == 1)


@pytest.mark.parametrize("variable", ["CODEX_API_KEY", "OPENAI_API_KEY"])
def test_codex_is_told_which_variable_holds_its_key_and_where_it_goes(
    keys: Callable[..., None], tmp_path: Path, variable: str
) -> None:
    marks = ("env_key", "http://127.0.0.1:9/v1", "model_provider=goalseek")
    found = []
    for names, endpoint in (((variable,), None), ((variable,), "http://127.0.0.1:9"), ((), "http://127.0.0.1:9")):
        keys(*names)
        words = started(tmp_path, "codex", endpoint=endpoint).arguments
        found.append([[word for word in words if mark in word] for mark in marks])
    key = [f'model_providers.goalseek.env_key="{variable}"']
    assert [row[0] for row in found] == [key, key, []], "a local model needs none"
    assert [len(row[1]) for row in found] == [0, 1, 1] and all(row[2] for row in found)


@pytest.mark.elsewhere
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_login_is_a_credential_that_is_there_or_the_word_that_none_is_needed(
    keys: Callable[..., None], tmp_path: Path, name: str
) -> None:
    keys("MY_KEY")
    found = []
    tables: tuple[dict[str, Any], ...] = (
        {},
        {"credentials": ()},
        {"endpoint": "http://127.0.0.1:9"},
        {"credentials": ("MY_KEY",)},
    )
    for table in tables:
        found.append(make_provider(ProviderTable(name=name, **table), tmp_path).editors[0].has_login)
    assert found == [False, True, True, True]


TOTAL = ("input_tokens", "cached_tokens", "output_tokens", "cost_usd")


def each(name: str) -> Usage:
    """What one answer of a pretended agent costs."""
    return Usage(70, 20, 10, 0.25 if name in COSTS else None)


def went_on(asked: Asked) -> list[bool]:
    """Of each call, whether it went on with a session."""
    return [bool({"--resume", "resume", "--session"} & set(started.arguments)) for started in asked.started]


def test_a_plan_of_another_provider_is_not_looked_for_in_a_session_without_it(fake: Fakes, tmp_path: Path) -> None:
    fake("claude")
    asked = Asked(tmp_path, "claude")
    asked.plan()
    asked.apply(Plan("a title", "", provider="another"))
    asked.apply(Plan("a title", "", provider="another"), phase="repair")
    assert went_on(asked) == [False, False, True]


@pytest.mark.parametrize("name", GOING_ON)
@pytest.mark.parametrize("act", ["transient", "half", "rate 0", "spent 0"])
@pytest.mark.slow
def test_a_failed_call_in_a_session_is_charged_once(fake: Fakes, tmp_path: Path, name: str, act: str) -> None:
    made = fake(name)
    made.acts(_1=act, _3=act)
    asked = Asked(tmp_path, name)
    charged = [asked.plan().usage, asked.apply().usage, asked.apply(phase="repair").usage]
    charged += [usage for _, usage in asked.again]
    assert (len(made.calls), len(asked.again), went_on(asked)) == (5, 2, [False, True, True, True, True])
    answers = 5 if act in ("half", "spent 0") and name in ("claude", "codex") else 3
    assert sum(usage.tokens for usage in charged) == 100 * answers
    assert sum(usage.cost_usd or 0 for usage in charged) == (0.25 * answers if name in COSTS else 0)
    if name == "claude":
        used = [Usage()] * 2 if answers == 3 else [each(name)] * 2
        assert [usage.tokens for _, usage in asked.again] == [usage.tokens for usage in used]
        assert charged[:3] == [each(name)] * 3


@pytest.mark.parametrize("name", GOING_ON)
def test_a_session_that_is_gone_is_not_waited_for(fake: Fakes, tmp_path: Path, name: str) -> None:
    made = fake(name)
    asked = Asked(tmp_path, name)
    asked.plan()
    for place in (tmp_path / "agent-home" / "sessions").iterdir():
        place.unlink()
    assert asked.apply().usage == each(name)
    assert (len(made.calls), went_on(asked), asked.waits) == (3, [False, True, False], [])
    ((why, usage),) = asked.again
    assert f"{name} cannot continue its session" in why and usage.tokens == 0
    assert asked.apply(phase="repair").usage == each(name) and went_on(asked)[-1]


def test_a_crash_begins_a_session_anew_and_where_that_crashes_too_it_is_given_up(fake: Fakes, tmp_path: Path) -> None:
    made = fake("codex")
    made.acts(apply="crash")
    asked = Asked(tmp_path, "codex")
    asked.plan()
    asked.left = 0.0
    with pytest.raises(GoalseekError):
        asked.apply()
    assert (len(made.calls), went_on(asked)) == (3, [False, True, False])
    made.acts()
    asked.left = 60.0
    asked.apply()
    assert went_on(asked)[-1] is False, "a call that crashed leaves no session"


@pytest.mark.parametrize("name", [7, ["s"], {"s": 1}, "", "--add-dir=/", "-", "two words", "a\nb", "s" * 201, None])
def test_what_is_no_name_of_a_session_never_becomes_a_word_of_a_command_line(name: object) -> None:
    assert session_after(Answer(session=name), None, "") is None  # type: ignore[arg-type]
    assert session_after(Answer(session="5e55-10_n.1:a"), None, "m") == Session("5e55-10_n.1:a", "m")


def test_another_model_and_a_review_begin_a_session_of_their_own(fake: Fakes, tmp_path: Path) -> None:
    fake("claude")
    asked = Asked(tmp_path, "claude", model="large", plan=ProviderTable(name="claude", model="s"))
    asked.plan()
    asked.apply()
    assert went_on(asked) == [False, False]
    asked.apply(phase="repair")
    assert went_on(asked)[-1]
    asked.phase = "review"
    author = asked.chain.editors[0]
    author.review(asked.made())  # type: ignore[attr-defined]
    assert not went_on(asked)[-1]


def test_a_total_of_dollars_beside_tokens_of_each_call_is_no_total_of_tokens(fake: Fakes, tmp_path: Path) -> None:
    fake("claude").acts(always="short")
    asked = Asked(tmp_path, "claude")
    main = Usage(60, 20, 10, 0.25)
    asked.phase = "apply"
    assert [asked.apply(phase=phase).usage for phase in ("apply", "repair", "repair")] == [main] * 3


@pytest.mark.parametrize(
    ("told", "whole", "before", "wanted"),
    [
        (Usage(300, 60, 30, 0.75), TOTAL, Usage(200, 40, 20, 0.5), Usage(100, 20, 10, 0.25)),
        (Usage(100, 20, 10, 0.25), TOTAL, Usage(200, 40, 20, 0.5), Usage(100, 20, 10, 0.25)),
        (Usage(300, 10, 30, 0.75), TOTAL, Usage(200, 40, 20, 0.5), Usage(300, 10, 30, 0.75)),
        (Usage(200, 40, 20, 0.3), TOTAL, Usage(200, 40, 20, 0.1 + 0.2), Usage(0, 0, 0, 0.0)),
        (Usage(300, 60, 30), TOTAL, Usage(200, 40, 20, 0.5), Usage(100, 20, 10)),
        (Usage(300, 60, 30, 0.75), TOTAL[:3], Usage(200, 40, 20), Usage(100, 20, 10, 0.75)),
        (Usage(30, 6, 3, 0.75), TOTAL[3:], Usage(200, 40, 20, 0.5), Usage(30, 6, 3, 0.25)),
        (Usage(30, 6, 3, 0.75), (), Usage(200, 40, 20, 0.5), Usage(30, 6, 3, 0.75)),
    ],
)
def test_what_a_call_added_to_a_total(told: Usage, whole: tuple[str, ...], before: Usage, wanted: Usage) -> None:
    """A total below the one before was begun anew, and rounded dollars alone say nothing of that."""
    assert usage_of_call(Answer(usage=told, whole_session=whole), Session("s", told=before)) == wanted
    assert usage_of_call(Answer(usage=told, whole_session=whole), None) == told


def test_a_price_makes_an_estimate_and_a_subscription_is_about() -> None:
    add_cost = ProviderChain((), (), (Price(model="m", input=2.0, cached=0.5, output=10.0),)).add_cost
    key, login = (
        CommandProvider(ProviderTable(name="command", billing=billing), Path()) for billing in ("api", "subscription")
    )
    used = Usage(1_000_000, 2_000_000, 100_000)
    assert add_cost(key, used, "m") == Usage(1_000_000, 2_000_000, 100_000, 4.0, True)
    assert add_cost(key, used, "other") == used
    told = Usage(1, 1, 1, 0.5)
    assert add_cost(key, told, "m") == told
    assert add_cost(login, told, "m") == Usage(1, 1, 1, None, False, 0.5)
    assert told.plus(Usage(about_usd=0.5)) == Usage(1, 1, 1, 0.5, False, 0.5)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Installs a package that brings a provider: its source, and the entry point that names it."""
    site = tmp_path / "site"

    def install(source: str, point: str = "mine = brought_agent:PRESET") -> None:
        info = site / "brought_agent-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: brought-agent\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[goalseek.providers]\n{point}\n")
        (site / "brought_agent.py").write_text(source)
        monkeypatch.syspath_prepend(site)
        importlib.invalidate_caches()

    yield install
    sys.modules.pop("brought_agent", None)


BROUGHT = """
from goalseek.providers.preset import Answer, Part, Preset
PRESET = Preset("mine", "sh", "it is there", (Part(("-c", "echo brought > knobs.txt; echo done")),), lambda told: Answer(told.stdout))
def make(table, folder):
    from goalseek.providers.scripted import ScriptedProvider
    return ScriptedProvider(table, folder)
"""


def test_another_package_brings_a_provider(package: Callable[..., None], fake: object, tmp_path: Path) -> None:
    package(BROUGHT, "mine = brought_agent:PRESET\nmade = brought_agent:make")
    assert "brought_agent" not in sys.modules
    assert Asked(tmp_path, "mine").apply().title == "done"
    assert (tmp_path / "workspace" / "knobs.txt").read_text() == "brought\n"
    assert load_maker("mine").tried == "", "nobody here has tried it"  # type: ignore[union-attr]
    assert make_provider(ProviderTable(name="made", script="moves.toml"), tmp_path).editors[0].name == "made"


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("raise RuntimeError('broken')", "cannot be loaded: RuntimeError: broken"),
        ("", "cannot be loaded: AttributeError"),
        ("PRESET = 7", "neither a Preset nor a function"),
    ],
)
def test_a_package_without_a_good_provider_is_named(
    package: Callable[..., None], tmp_path: Path, source: str, why: str
) -> None:
    package(source)
    with pytest.raises(GoalseekError, match=why) as caught:
        make_provider(ProviderTable(name="mine"), tmp_path)
    assert "of the package brought-agent" in caught.value.message and caught.value.exit_code == 3
