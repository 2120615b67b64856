"""What each preset asks for, reads and calls a failure; who is asked when; and what nobody may write down."""

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
from goalseek.providers.command import CommandProvider
from goalseek.providers.credentials import Credential, find_login
from goalseek.providers.fallback import LOOK_SECONDS, RETRY_SECONDS, Failed, ProviderChain
from goalseek.providers.preset import Printed
from goalseek.providers.provider import Call, CallHost, LaunchSpec
from goalseek.providers.registry import load_maker, make_provider
from goalseek.sandbox.environment import Redactor
from goalseek.sandbox.home import AgentHome
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
        return replace(self._base, phase=self.phase, prompt=self.prompt)

    def plan(self) -> Any:
        self.phase = "plan"
        return self.chain.plan(self.made())

    def apply(self, plan: Plan | None = None, phase: str = "apply") -> Any:
        self.phase = phase
        return self.chain.apply(self.made(), plan or Plan("", "b"))


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("confined", [True, False])
def test_its_answers_are_read_and_permissions_skipped_in_a_sandbox(
    fake: Fakes, tmp_path: Path, name: str, confined: bool
) -> None:
    made = fake(name)
    asked = Asked(tmp_path, name, model="m/large", confined=confined)
    reply = asked.plan()
    assert (reply.title, reply.text, reply.files) == ("a higher rate", "because", ("knobs.txt",))
    assert reply.usage == Usage(70, 20, 10, 0.25 if name in COSTS else None)
    assert (reply.provider, reply.model) == (name, "m/large")
    going = asked.sessions[name]
    plan = Plan(reply.title, "", usage=reply.usage, provider=name, model="m/large")
    changed = asked.apply(plan)
    assert changed.usage == reply.usage, "of the session, what this call used"
    assert changed.title == "a higher rate" and (tmp_path / "workspace" / "knobs.txt").exists()
    planned, applied = made.calls
    given = [(*started.arguments, *started.home_files.values()) for started in asked.started]
    skips = [[word for word in words if word in SKIPPING] for words in given]
    assert bool(skips[1]) == confined and (not skips[0] or name != "aider"), skips
    assert any("m/large" in word for word in applied["argv"])
    assert given[0] != given[1] or name == "mini-swe-agent", "the others can read only, or go on"
    assert bool(going) == (name in GOING_ON)
    assert not going or (going.name in applied["argv"] and going.name not in planned["argv"])


@pytest.mark.parametrize("name", PROGRAMS)
def test_how_it_fails_is_told_by_declared_fields(fake: Fakes, tmp_path: Path, name: str) -> None:
    nothing = "undeclared" if name in ("claude", "codex", "gemini") else "crashed"
    acts = {"auth": "auth", "rate 5": "rate_limited", "transient": "transient", "crash": nothing}
    for act, kind in acts.items():
        (tmp_path / kind).mkdir()
        asked = Asked(tmp_path / kind, name)
        fake(name).acts(always=act)
        with pytest.raises(Failed) as caught:
            asked.chain.editors[0].apply(asked.made(), Plan("a", "b"))
        is_silent = name == "aider" or (act == "crash" and name in ("opencode", "mini-swe-agent"))
        assert caught.value.kind == ("undeclared" if is_silent else kind), caught.value.why
        if act == "rate 5" and name in ("claude", "opencode"):
            assert caught.value.reset is not None and 0 < caught.value.reset <= 5


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_it_says_of_errors_is_no_failure_and_prose_is_no_plan(fake: Fakes, tmp_path: Path, name: str) -> None:
    fake(name).acts(always='say "Error: 401 Unauthorized, rate limit exceeded"')
    asked = Asked(tmp_path, name)
    assert asked.apply().title.startswith("Error: 401")
    with pytest.raises(Rejected) as caught:
        asked.plan()
    assert caught.value.reason == "no_plan" and asked.waits == []


UNDOCUMENTED = (
    *("", "{", "[]", '{"type": "result"}', '{"type":"result","is_error":true,"usage":7}', "\x00" * 99),
    *('{"type":"turn.completed","usage":[1]}', '{"stats": {"models": 3}}'),
    '{"type":"step_finish","part":9,"sessionID":[]}',
)


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_output_that_nobody_documented_is_read_as_no_answer_or_an_empty_one(name: str) -> None:
    for printed in UNDOCUMENTED:
        answer = load_maker(name).read(Printed(0, printed, printed, lambda path, printed=printed: printed))  # type: ignore
        assert answer.usage.tokens == 0 and (answer.trouble or not answer.text.strip("\x00")), printed


@pytest.mark.elsewhere
def test_a_prompt_that_is_too_long_for_an_argument_is_read_from_its_file(fake: Fakes, tmp_path: Path) -> None:
    made = fake("mini-swe-agent")
    asked = Asked(tmp_path, "mini-swe-agent", confined=True)
    for letters, is_whole in ((128 * 1024 - 1, True), (128 * 1024, False)):
        asked.prompt = "a" * letters
        asked.apply()
        argument = made.calls[-1]["argv"][-1]
        assert (argument == asked.prompt) == is_whole and (str(tmp_path / "prompt.md") in argument) != is_whole


def test_aider_edits_what_its_plan_names_and_sees_a_map_while_it_plans(fake: Fakes, tmp_path: Path) -> None:
    fake("aider")
    asked = Asked(tmp_path, "aider")
    files = tuple(f"src/{number}.py" for number in range(40))
    asked._base = replace(asked._base, writable=files)
    asked.plan()
    asked.apply(Plan("a", "b", ("src/7.py", "src/3.py", "new.py", "answer.json")))
    asked.apply(Plan("a", "b"))
    planned, applied, unplanned = ([word for word in one.arguments if word in files] for one in asked.started)
    assert (planned, applied, unplanned) == ([], ["src/3.py", "src/7.py"], list(files[:20]))
    assert ["--map-tokens" in one.arguments for one in asked.started] == [False, True, True]


def test_another_endpoint_is_given_as_each_agent_wants_it(fake: Fakes, tmp_path: Path) -> None:
    for name in PROGRAMS:
        made = fake(name)
        Asked(tmp_path, name, model="p/m", endpoint="http://127.0.0.1:9/").apply()
        (call,) = made.calls
        assert "http://127.0.0.1:9" in json.dumps([call["argv"], call["environment"]]), name
        assert "9//v1" not in json.dumps(call["argv"])


def test_words_of_the_manifest_come_before_the_presets(fake: Fakes, tmp_path: Path) -> None:
    made = fake("claude")
    Asked(tmp_path, "claude", command=(str(made.path), "--mine")).apply()
    assert made.calls[0]["argv"][:2] == ["--mine", "-p"]
    with pytest.raises(GoalseekError, match="there is no program 'gone'") as caught:
        make_provider(ProviderTable(name="claude", command=("gone",)), tmp_path).editors[0].check()
    assert caught.value.exit_code == 3 and "npm install" in caught.value.hint


def test_a_key_goes_before_a_subscription_and_neither_reads_what_a_project_says(
    fake: Fakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = fake("claude")
    monkeypatch.setenv("CLAUDE_CODE_OAUTH_TOKEN", "oauth-token-of-mine")
    asked = Asked(tmp_path, "claude")
    asked.apply()
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key-of-mine")
    asked.apply()
    assert all({"--safe-mode", "--setting-sources"} <= set(call["argv"]) for call in made.calls)
    variables = [started.login.variables for started in asked.started]
    assert variables == [("CLAUDE_CODE_OAUTH_TOKEN",), ("ANTHROPIC_API_KEY",)]
    assert asked.chain.editors[0].is_subscription() is False


MARKS = ("env_key", "http://127.0.0.1:9/v1", "model_provider=goalseek")


@pytest.mark.parametrize("variable", ["CODEX_API_KEY", "OPENAI_API_KEY"])
def test_codex_is_told_which_variable_holds_its_key_and_where_it_goes(
    fake: Fakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    for name in ("CODEX_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "key-of-mine")
    made = fake("codex")
    Asked(tmp_path, "codex").apply()
    Asked(tmp_path, "codex", endpoint="http://127.0.0.1:9").apply()
    monkeypatch.delenv(variable)
    Asked(tmp_path, "codex", endpoint="http://127.0.0.1:9").apply()
    keys, addresses, providers = ([[w for w in c["argv"] if mark in w] for c in made.calls] for mark in MARKS)
    assert keys == [[f'model_providers.goalseek.env_key="{variable}"']] * 2 + [[]], "a local model needs none"
    assert [len(words) for words in addresses] == [0, 1, 1] and [bool(words) for words in providers] == [True] * 3


def test_a_limit_that_is_over_in_a_minute_is_waited_for_and_the_same_is_asked_again(
    fake: Fakes, tmp_path: Path
) -> None:
    fake("claude").acts(_0="rate 7")
    fake("codex")
    asked = Asked(tmp_path, "claude", fallback=("codex",))
    assert asked.apply().provider == "claude"
    ((seconds, why),) = asked.waits
    assert 5 < seconds <= 8 and why == "claude is rate limited"


def test_without_another_a_closed_one_is_waited_for_until_the_run_ends(fake: Fakes, tmp_path: Path) -> None:
    fake("codex").acts(_0="rate", _1="rate")
    asked = Asked(tmp_path, "codex")
    assert asked.apply().title == "a higher rate"
    assert [seconds for seconds, _ in asked.waits] == pytest.approx(LOOK_SECONDS[:2], abs=1)
    fake("claude").acts(always="rate 999")
    alone = Asked(tmp_path, "claude")
    alone.left = 60.0
    with pytest.raises(GoalseekError, match=r"closed until 20.*longer than this run") as caught:
        alone.apply()
    assert (caught.value.exit_code, caught.value.stop_reason) == (3, "provider")


def test_a_refused_key_goes_to_the_next_at_once_and_the_last_ends_the_run(fake: Fakes, tmp_path: Path) -> None:
    for name in ("claude", "codex", "gemini"):
        fake(name).acts(always="auth")
    fake("opencode")
    asked = Asked(tmp_path, "claude", fallback=("codex", ProviderTable(name="gemini"), "opencode"))
    assert asked.plan().provider == "opencode" and asked.waits == []
    with pytest.raises(GoalseekError, match="no provider accepts") as caught:
        Asked(tmp_path, "claude", fallback=("codex",)).plan()
    assert (caught.value.exit_code, caught.value.stop_reason) == (3, "auth")


def test_what_was_used_by_a_closed_call_is_told_each_time(fake: Fakes, tmp_path: Path) -> None:
    made = fake("claude")
    made.acts(_0="half", _1="half", _2="half", _3="half", _4="half")
    asked = Asked(tmp_path, "claude", credentials=())
    assert asked.apply().title == "a higher rate" and len(made.calls) == 6
    assert [seconds for seconds, _ in asked.waits] == pytest.approx([*RETRY_SECONDS, *LOOK_SECONDS[:2]], abs=1)
    assert [usage.cost_usd for _, usage in asked.again] == [0.25] * 5
    assert len({why for why, _ in asked.again}) == 1, "one outage has one name"


@pytest.mark.elsewhere
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "aider"])
def test_without_a_login_a_call_that_came_to_nothing_is_refused(
    fake: Fakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    fake(name).acts(always="transient")
    with pytest.raises(GoalseekError, match="no login was found") as caught:
        Asked(tmp_path, name).plan()
    assert caught.value.stop_reason == "auth"
    for table in ({"credentials": ()}, {"endpoint": "http://127.0.0.1:9"}, {"credentials": ("MY_KEY",)}):
        monkeypatch.setenv("MY_KEY", "key-of-mine")
        asked = Asked(tmp_path, name, **table)
        asked.left = 0.0
        with pytest.raises((GoalseekError, Failed)) as other:
            asked.plan()
        assert getattr(other.value, "stop_reason", "provider") == "provider"
    fake(name).acts(_0="work", _1="transient", _2="work")
    asked = Asked(tmp_path, name)
    assert asked.apply() and asked.apply(), "it answers without one that we know of"


def test_another_may_plan(fake: Fakes, tmp_path: Path) -> None:
    fake("claude"), fake("codex")
    asked = Asked(tmp_path, "claude", plan=ProviderTable(name="codex", model="p"))
    plan = asked.plan()
    assert (plan.provider, plan.model) == ("codex", "p")
    asked.apply(Plan("a", "b", provider=plan.provider, model=plan.model))
    assert "--resume" not in asked.started[-1].arguments, "the session of another is nobody's to go on with"


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


def test_logins_are_of_one_kind_and_a_file_tells_which(isolated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = load_maker("codex").credentials  # type: ignore[union-attr]
    for name in ("OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert find_login(sources).billing is None
    file = isolated / ".codex" / "auth.json"
    file.parent.mkdir()
    file.write_text('{"OPENAI_API_KEY": null, "tokens": {"refresh_token": "r"}}')
    login = find_login(sources)
    assert (login.billing, login.files[0].real, login.files[0].below_home) == ("subscription", file, ".codex/auth.json")
    file.write_text('{"OPENAI_API_KEY": "key"}')
    assert find_login(sources).billing == "api"
    file.write_text('{"tokens": {}}')
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    assert find_login(sources).variables == ("OPENAI_API_KEY",) and find_login(sources).files == ()
    assert find_login(sources, "subscription").files and find_login(sources, "subscription").variables == ()
    moved = isolated / "elsewhere"
    moved.mkdir()
    (moved / "auth.json").write_text("{}")
    monkeypatch.setenv("CODEX_HOME", str(moved))
    (found,) = find_login(sources, "subscription").files
    assert (found.real, found.below_home) == (moved / "auth.json", ".codex/auth.json")
    assert find_login((Credential("/etc/hostname", "api"),)).files[0].below_home == ""


@pytest.mark.elsewhere
def test_a_login_is_a_link_and_what_is_put_in_its_place_is_taken_back(own: Path) -> None:
    real = own / "real.json"
    real.write_text('{"refresh": "one"}')
    real.chmod(0o600)
    home = AgentHome(own / "agent")
    links = {".codex/auth.json": (real, real)}
    home.make("1 codex", links, {"settings": "text"})
    place = home.path / ".codex" / "auth.json"
    assert place.is_symlink() and (home.path / "settings").read_text() == "text"
    place.write_text('{"refresh": "two"}')
    assert home.collect_renewed_logins() == [] and real.read_text() == '{"refresh": "two"}', "written in place"
    fresh = place.with_name("new")
    fresh.write_text('{"refresh": "three"}')
    fresh.replace(place)
    (home.path / "kept").write_text("session")
    home.make("1 codex", links, {})  # as after a kill, where nobody took it back
    assert real.read_text() == '{"refresh": "three"}' and real.stat().st_mode & 0o777 == 0o600
    assert place.is_symlink() and (home.path / "kept").exists()
    home.make("2 codex", links, {})
    assert not (home.path / "kept").exists() and home.is_of("2 codex") and not home.is_of("1 codex")


def test_a_login_that_others_use_now_stays_the_same_file_and_the_newest_one_counts(own: Path) -> None:
    real, homes = own / "real.json", [AgentHome(own / name) for name in ("first", "second", "third")]
    real.write_text('{"refresh": "longer at first"}')
    os.utime(real, (100, 100))
    inode = real.stat().st_ino
    for moment, home in zip((200, 300, 250), homes, strict=True):  # each renews it before any of them ends
        home.make("1", {"auth.json": (real, real)}, {})
        (home.path / "auth.json").unlink()
        (home.path / "auth.json").write_text(f'{{"refresh": "{moment}"}}')
        os.utime(home.path / "auth.json", (moment, moment))
    for home in homes:
        home.collect_renewed_logins(is_shared=True)
    assert json.loads(real.read_text()) == {"refresh": "300"}
    assert (real.stat().st_ino, real.stat().st_mtime) == (inode, 300)


def test_what_is_older_than_the_login_or_no_file_is_not_taken_back(own: Path) -> None:
    real, other = own / "real.json", own / "other"
    real.write_text("mine")
    other.mkdir()
    home = AgentHome(own / "agent")
    links = {".codex/auth.json": (real, real)}
    home.make("1", links, {})
    place = home.path / ".codex" / "auth.json"
    place.unlink()
    place.write_text("stale")
    os.utime(place, (1, 1))
    home.collect_renewed_logins()
    assert real.read_text() == "mine" and not place.exists()
    home.make("1", links, {})
    place.unlink()
    place.parent.rmdir()
    place.parent.symlink_to(other)  # an agent's trap: what is put there lands elsewhere
    home.make("1", links, {})
    assert list(other.iterdir()) == [] and place.is_symlink() and not place.parent.is_symlink()
    place.unlink()
    os.mkfifo(place)
    home.collect_renewed_logins()
    assert real.read_text() == "mine"


def test_secrets_are_taken_out_whole_across_chunks_and_in_json(tmp_path: Path) -> None:
    secrets = Redactor()
    secrets.add_variables({"K": 'sk-"quoted"-12345', "SHORT": "abc"})
    file = tmp_path / "auth.json"
    file.write_text('{"tokens": {"access_token": "access-0123456789"}, "email": "me@example.com-long"}')
    secrets.add_files([file, tmp_path / "gone"])
    shown: list[bytes] = []
    tell = secrets.stream(shown.append)
    for chunk in (b'a sk-"quo', b'ted"-12345 b\nmore abc acc', b'ess-0123456789 sk-\\"quoted\\"-12345', b""):
        tell(chunk)
    assert b"".join(shown) == b"a [credential] b\nmore abc [credential] [credential]"
    assert secrets.contains(b"x access-0123456789") and not secrets.contains(b"me@example.com-long abc")


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
    return ScriptedProvider(folder / "moves.toml", name=table.name)
"""


def test_another_package_brings_a_provider(package: Callable[..., None], fake: object, tmp_path: Path) -> None:
    package(BROUGHT, "mine = brought_agent:PRESET\nmade = brought_agent:make")
    assert "brought_agent" not in sys.modules
    assert Asked(tmp_path, "mine").apply().title == "done"
    assert (tmp_path / "workspace" / "knobs.txt").read_text() == "brought\n"
    assert load_maker("mine").tried == "", "nobody here has tried it"  # type: ignore[union-attr]
    assert make_provider(ProviderTable(name="made"), tmp_path).editors[0].name == "made"


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
