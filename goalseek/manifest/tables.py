"""The manifest's tables, with the contract's names and defaults; the docstrings are published in its JSON Schema.

Nothing that takes time is imported here, so that ``status`` and ``log`` may use a manifest that was checked before.
"""

from typing import Literal

from msgspec import Struct

from goalseek.manifest import fields as form
from goalseek.values import Usage

Source = Literal["json", "stdout", "stderr", "wall", "cpu"]
TIME_SOURCES: tuple[Source, ...] = ("wall", "cpu")
Sees = Literal["candidate", "hidden", "both"]
FRESH = "fresh"  # in search.rotate: the provider itself, without its session
MOST_AUTO_AGENTS = 8


class ProjectTable(Struct, frozen=True, kw_only=True):
    """The project: its name, its repository, and the instructions for the agent."""

    name: form.Name
    """The project's name, after which the branch `goalseek/<name>` and the folder of its records are called.
    Example: `name = "digits"`"""
    repo: str = "."
    """The repository's folder, for a manifest that lies outside of it. Example: `repo = "../digits"`"""
    program: str | None = None
    """The file with your instructions for the agent; by default `program.md` beside the manifest, if there is one.
    Example: `program = "docs/agent.md"`"""


class ScopeTable(Struct, frozen=True, kw_only=True):
    """The files that a candidate may change, and those that it may see. If globs overlap, the first of hidden,
    read_only, generated and writable counts."""

    writable: form.SomePatterns
    """The files that a candidate may change, as globs in the style of `.gitignore`: `Makefile` matches in every
    folder, `/Makefile` only beside the manifest.
    Example: `writable = ["experiment.py", "src/**"]`"""
    generated: form.Patterns = ()
    """Files that programs may write in the trees; they never count as a change and are never committed.
    Example: `generated = ["out/**"]`"""
    read_only: form.Patterns = ()
    """Files that no candidate may change although `writable` names them; other tracked files are read-only anyway.
    Example: `read_only = ["src/data/**"]`"""
    hidden: form.Patterns = ()
    """Tracked files that the agent never gets; only verify commands that see `hidden` or `both` find them.
    Example: `hidden = ["score.py", "labels/**"]`"""
    hidden_from: form.Folder = None
    """A folder outside of the repository with more hidden files, which appear at the same paths in the trees.
    Example: `hidden_from = "../digits-verifier"`"""
    share: form.InnerPaths = ()
    """Paths that git ignores, or submodules, which all programs need; they are read-only and never copied.
    Example: `share = [".venv", "data"]`"""
    strays: Literal["drop", "reject"] = "drop"
    """What happens to new files outside the scope: `drop` leaves them out, `reject` refuses the candidate.
    Example: `strays = "reject"`"""


class Setup(Struct, frozen=True, kw_only=True):
    """A command that prepares the trees, once for each pinned verifier: on the baseline, without the hidden files."""

    run: form.Command
    """The command that prepares the trees; it sees the baseline without the hidden files.
    Example: `run = "cmake -S . -B build && cmake --build build"`"""
    gives: form.InnerPaths = ()
    """Folders that the command makes; each measurement gets its own copy of them. Example: `gives = ["build"]`"""
    network: bool = False
    """Whether the command may use the network. Example: `network = true`"""
    timeout: form.Seconds = 1800.0
    """How long the command may take. Example: `timeout = "1h"`"""


class VerifyCommand(Struct, frozen=True, kw_only=True):
    """One command of the measurement. They run in order, and the first that fails rejects the candidate."""

    run: form.Command
    """The command: a text runs under `sh -c`, a list of words runs as it is. Example: `run = "python3 train.py"`"""
    name: str = ""
    """The command's name, which `metric.command` uses; by default its first word. Example: `name = "train"`"""
    cwd: form.FolderPath = "."
    """The folder in which the command runs, relative to the manifest's. Example: `cwd = "tests"`"""
    sees: Sees | None = None
    """Which files the command finds: `candidate` without hidden ones, `hidden` without candidate code, or `both`.
    Example: `sees = "hidden"`"""
    outputs: form.Globs = ()
    """Files, folders and globs that later commands find at the same path. Example: `outputs = ["predictions.csv"]`"""
    output_max: form.Size = 2 * 2**30
    """How large the outputs of the command may be, together. Example: `output_max = "500MiB"`"""
    once: bool = False
    """Whether the command runs once a candidate, even if the measurement is repeated: for builds, lint and tests.
    Example: `once = true`"""
    keep: form.Globs = ()
    """Build caches that outlive the command; isolation is weaker, as one candidate may influence the next.
    Example: `keep = ["node_modules/.cache/**"]`"""
    timeout: form.Timeout = "auto"
    """How long the command may take; `auto` is three times the slowest run of the baseline, and at least a minute.
    Example: `timeout = "20m"`"""
    network: bool = False
    """Whether the command may use the network. Example: `network = true`"""

    @property
    def text(self) -> str:
        """The command in one text, as it is shown and searched."""
        return self.run if isinstance(self.run, str) else " ".join(self.run)


class Variables(Struct, frozen=True, kw_only=True):
    """Environment variables of programs, beside a few usual ones."""

    pass_: form.Patterns = ()
    """Variables of your own environment that the programs get too. Example: `pass = ["CUDA_VISIBLE_DEVICES"]`"""
    set: dict[str, str] = {}
    """Variables and their values, in which goalseek replaces `${HOME}` and your other variables.
    Example: `set = { OMP_NUM_THREADS = "1" }`"""


class EnvironmentTable(Struct, frozen=True, kw_only=True):
    """Environment variables of the verifier and of the agent, beside a few usual ones."""

    verify: Variables = Variables()
    agent: Variables = Variables()


class Reading(Struct, frozen=True, kw_only=True):
    """How one number is read from what a measurement left behind."""

    name: str = ""
    """The number's name in records and messages; by default the text of `query`. Example: `name = "accuracy"`"""
    source: Source | None = None
    """Where the number stands: a `json` file, `stdout`, `stderr`, or the command's seconds: `wall` or `cpu`.
    Example: `source = "stderr"`"""
    path: form.InnerPath = "metrics.json"
    """The JSON file, in `$GOALSEEK_RUN_DIR` or one of `outputs`; a `.jsonl` file is a list of its rows.
    Example: `path = "scores.json"`"""
    query: str | None = None
    """The [JMESPath](https://jmespath.org) of the number in the JSON file. Example: `query = "test.accuracy"`"""
    regex: str | None = None
    """The regular expression that finds the number in a text; its one group is the number, as `0.5` or `222,271,355`.
    Example: `regex = 'loss: ([0-9.]+)'`"""
    matches: Literal["only", "last"] = "only"
    """Which match of `regex` counts: `only` refuses a second one, `last` takes the last. Example: `matches = "last"`"""
    command: str = ""
    """The verify command whose output or time is read; by default the last one, but a time among several commands has
    no default. Example: `command = "train"`"""
    valid: form.Range = None
    """The lowest and the highest number that can be true; any other rejects the candidate.
    Example: `valid = [0.0, 1.0]`"""

    @property
    def unit(self) -> str:
        """The unit of the number where goalseek knows it: "s" of a time; else ""."""
        return "s" if self.source in TIME_SOURCES else ""


class Metric(Reading, frozen=True, kw_only=True):
    """The number that is to become better, how it is read, and when a change is kept."""

    direction: Literal["maximize", "minimize"]
    """Which numbers are better: `maximize` prefers high ones, `minimize` low ones. Example: `direction = "maximize"`"""
    target: form.Amount = None
    """The number at which the run ends, as a success. Example: `target = 0.99`"""
    min_delta: form.LeastMargin = 0.0
    """The least gain that a kept change must have, absolute or in percent. Example: `min_delta = "0.5%"`"""
    noise: Literal["auto", "none", "always"] = "auto"
    """When runs are repeated: `auto` if the baseline's runs differ, `always`, or `none`. Example: `noise = "none"`"""
    max_repeats: form.Repeats = 8
    """How many runs a candidate gets at most, if runs are repeated. Example: `max_repeats = 12`"""
    alpha: form.Alpha = None
    """The chance of keeping a change that does nothing; `auto` learns it from the kept changes, within 0.01 and 0.5;
    with `cases` it is 0.05.
    Example: `alpha = 0.05`"""
    window: form.Positive = 30
    """The age, in runs of the verifier, up to which a run of the incumbent counts in a comparison.
    Example: `window = 20`"""
    settle: form.Count = 5
    """How many pairs of baseline and best are measured afresh when a run ends; `none` measures none.
    Example: `settle = 10`"""
    cases: str | None = None
    """The [JMESPath](https://jmespath.org) of a list of `{id, score}`, or of a mapping of ids to scores, by which
    candidates are compared case by case; the number is the mean of the scores.
    Example: `cases = "results[*].{id: id, score: score}"`"""
    race: Literal["auto", "off"] = "auto"
    """Whether a candidate is measured on more and more of the `cases`, until it lies behind: `auto` if the verifier
    answers only what the file `$GOALSEEK_CASES` asks. Example: `race = "off"`"""
    missing: Literal["worst", "fail"] | float = "worst"
    """What a case counts for which a candidate has no score, asked twice: a number, or the `worst` of 0, 1 and all
    scores so far; `fail` rejects the candidate. Example: `missing = 0.0`"""
    examples: form.Count = None
    """How many examples a fixed evaluation set has; goalseek reports a gain that luck reaches on so many.
    Example: `examples = 500`"""
    exclusive: str = "none"
    """The name of a resource for one measurement at a time; climbs on this machine with the same name take turns.
    Example: `exclusive = "gpu0"`"""
    allow_fixed_seed: bool = False
    """Whether a candidate may win if its runs agree to the last bit, though the incumbent's differ by seed.
    Example: `allow_fixed_seed = true`"""
    portable: bool = False
    """Whether numbers of different kinds of machines may be compared, as those that count something may.
    Example: `portable = true`"""


class Guard(Reading, frozen=True, kw_only=True):
    """A second number, whose bounds no kept change may break."""

    min: float | None = None
    """The lowest number with which a candidate is kept. Example: `min = 0.9`"""
    max: float | None = None
    """The highest number with which a candidate is kept. Example: `max = 512`"""
    max_increase: form.Margin | None = None
    """How far the number may rise above the baseline's, absolute or in percent. Example: `max_increase = "5%"`"""
    max_decrease: form.Margin | None = None
    """How far the number may fall below the baseline's, absolute or in percent. Example: `max_decrease = 0.01`"""


class Holdout(Struct, frozen=True, kw_only=True):
    """A number that decides nothing, and that no agent gets in any form. goalseek reads it like the metric."""

    command: str
    """The verify command that runs for the holdout alone, and whose output or time is read.
    Example: `command = "final"`"""
    when: Literal["end", "kept"] = "end"
    """When the number is measured: at the `end` of a run, or after each `kept` change too. Example: `when = "kept"`"""
    query: str | None = None
    """The [JMESPath](https://jmespath.org) of the number in the JSON file, if it is not the metric's.
    Example: `query = "test.accuracy"`"""
    regex: str | None = None
    """The regular expression that finds the number in `stdout`, or in the text that the metric is read from, if it is
    not the metric's. Example: `regex = 'loss: ([0-9.]+)'`"""


class Cheat(Struct, frozen=True, kw_only=True):
    """A patch that games the metric: `goalseek doctor` shows that it loses. The agent never sees it."""

    patch: form.InnerPath
    """The file of the patch, as `git diff` prints it. Example: `patch = "cheats/print.patch"`"""


class ProviderTable(Struct, frozen=True, kw_only=True):
    """Who proposes the changes."""

    name: str
    """An agent such as `claude`, your own program (`command`), or `tune`, `scripted` or `replay`.
    Example: `name = "claude"`"""
    model: str = ""
    """The agent's model; by default the agent chooses. Example: `model = "claude-sonnet-4-5"`"""
    timeout: form.Seconds = 1800.0
    """How long one call may take. Example: `timeout = "1h"`"""
    fallback: "tuple[str | ProviderTable, ...]" = ()
    """Providers to ask, in order, if this one cannot answer: names, or tables with the same keys.
    Example: `fallback = ["codex"]`"""
    billing: Literal["auto", "api", "subscription"] = "auto"
    """Who pays: `subscription` costs no dollars, `api` does, and `auto` goes by the login.
    Example: `billing = "subscription"`"""
    endpoint: form.Endpoint = None
    """The address of the model's server, in place of the agent's own. Example: `endpoint = "http://localhost:8080"`"""
    credentials: form.Patterns | None = None
    """Your variables and files that the agent gets, in place of the preset's.
    Example: `credentials = ["MY_API_KEY"]`"""
    plan: "ProviderTable | None" = None
    """Another provider that makes the plans: a table with these keys. Example: `plan = { name = "gemini" }`"""
    repair: form.Whole = 1
    """How often a candidate that crashed, or edited files outside the scope, goes back to its author.
    Example: `repair = 2`"""
    prompts: str = ""
    """The folder of your own `plan.md`, `apply.md`, `repair.md` or `review.md`. Example: `prompts = "my-prompts"`"""
    record: form.Folder = None
    """The folder in which every call is stored; `replay` answers from it. Example: `record = "recordings"`"""
    command: form.Patterns | None = None
    """For `command`, the program and its words; for an agent, its program and words that come before the preset's.
    Example: `command = ["./my-agent.sh", "--edit"]`"""
    ask_plan: bool = False
    """For `command`: whether the program is called for a plan first. Example: `ask_plan = true`"""
    script: str = "moves.toml"
    """For `scripted`: the file of its moves. Example: `script = "night.toml"`"""
    sampler: Literal["tpe", "cmaes", "random"] = "tpe"
    """For `tune`: how the next values are chosen. Example: `sampler = "cmaes"`"""
    seed: int = 0
    """For `tune`: the seed of its random numbers. Example: `seed = 7`"""

    @property
    def label(self) -> str:
        """Name and model: records tell proposers apart by them."""
        return f"{self.name} {self.model}".rstrip()


class ReviewTable(Struct, frozen=True, kw_only=True):
    """An agent that gives a second opinion on a change before it is kept."""

    provider: str | ProviderTable
    """Who reviews: a name, or a table with the keys of `[provider]`. Example: `provider = "gemini"`"""
    criteria: form.Patterns
    """The conditions that the reviewer checks, a line each. Example: `criteria = ["No test is weakened."]`"""
    max_cycles: form.Positive = 3
    """How often a change may go back to its author. Example: `max_cycles = 1`"""


class Price(Struct, frozen=True, kw_only=True):
    """The price of a model, if its agent reports no cost."""

    model: str
    """The model's name, as records have it. Example: `model = "gpt-5-codex"`"""
    input: form.NotNegative
    """Dollars for a million tokens of input. Example: `input = 1.25`"""
    output: form.NotNegative
    """Dollars for a million tokens of output. Example: `output = 10.0`"""
    cached: form.NotNegative | None = None
    """Dollars for a million cached tokens; by default the price of input. Example: `cached = 0.125`"""

    def cost_of(self, usage: Usage) -> float:
        cached = self.input if self.cached is None else self.cached
        dollars = usage.input_tokens * self.input + usage.cached_tokens * cached + usage.output_tokens * self.output
        return dollars / 1e6


class Budget(Struct, frozen=True, kw_only=True):
    """What may be spent."""

    iterations: form.Count = None
    """How many iterations there may be. Example: `iterations = 200`"""
    time: form.Seconds = None
    """How much active time may be spent, without waits for a provider and interruptions. Example: `time = "8h"`"""
    tokens: form.Count = None
    """How many tokens agents may use: input, cached and output together. Example: `tokens = 2_000_000`"""
    cost_usd: form.Cost = None
    """How many dollars agents may cost, as they report it or by `[[price]]`. Example: `cost_usd = 20.0`"""


class Limits(Budget, frozen=True, kw_only=True):
    """When a run ends by itself."""

    deadline: form.Moment = None
    """The moment at which the run ends. Example: `deadline = 2026-12-01T07:00:00Z`"""
    stagnation: form.Count = 10
    """After how many iterations without a kept change the prompts ask for another kind of change.
    Example: `stagnation = 15`"""
    stagnation_stop: form.Count = None
    """After how many iterations without a kept change the run ends and asks for a person.
    Example: `stagnation_stop = 40`"""
    failures: form.Count = 20
    """How many failed calls of the provider, or crashed candidates, in a row end the run. Example: `failures = 10`"""
    total: Budget = Budget()
    """A budget of all runs of the project together. Example: `total = { cost_usd = 100.0 }`"""


class Search(Struct, frozen=True, kw_only=True):
    """Which providers take turns, and whether near misses are tried together."""

    rotate: tuple[str | ProviderTable, ...] = ()
    """Providers that take turns with `provider` after a plateau: names, or tables with the same keys; `fresh` is the
    same provider without its session. Example: `rotate = ["codex"]`"""
    plateau: form.Positive = 20
    """After how many iterations without a kept change the next of `rotate` takes its turn. Example: `plateau = 30`"""
    stack: Literal["auto", "always", "none"] = "auto"
    """Whether rejected near misses of the same code are tried together, without an agent: `auto` if the metric is
    noisy, `always`, or `none`. Example: `stack = "none"`"""


class Tls(Struct, frozen=True, kw_only=True):
    """The certificates of a cluster that is there: paths of files in PEM."""

    ca: str
    """The authority's certificate. Example: `ca = "~/dask/ca.pem"`"""
    cert: str
    """This machine's certificate. Example: `cert = "~/dask/me.pem"`"""
    key: str
    """Its key: it opens the cluster. Example: `key = "~/dask/me-key.pem"`"""


class Parallel(Struct, frozen=True, kw_only=True):
    """How many iterations are under way at once, and where. A change takes effect with the next iteration that begins;
    one of `benches` once all that are under way have ended, one of `cluster` with the next command."""

    agents: form.Agents = 1
    """How many proposals are made at once; `auto` follows how long this climb's proposals and measurements take.
    Example: `agents = 4`"""
    benches: form.Benches = 1
    """How many measurements are made at once. Example: `benches = 4`"""
    cluster: form.Cluster = "none"
    """Workers in place of `benches`: `local:4` starts four here, `ssh:gpu1,gpu2` one on each host; `tls://HOST:PORT`
    and `file:PATH` (Dask's scheduler file) join a cluster. Example: `cluster = "ssh:gpu1,gpu2"`"""
    python: str = "python3"
    """The Python that has goalseek[cluster] on `ssh:` hosts. Example: `python = "~/goalseek/bin/python"`"""
    tls: Tls | None = None
    landings: form.Positive = 3
    """How many times another winner may land first before goalseek gives up a winner. Example: `landings = 5`"""


class SandboxTable(Struct, frozen=True, kw_only=True):
    """The isolation of agent and candidate from the rest of the machine."""

    mode: Literal["auto", "bubblewrap", "landlock", "none"] = "auto"
    """The level of isolation: `auto` is the best one that works here. Example: `mode = "landlock"`"""
    agent_network: bool = True
    """Whether the agent may use the network. Example: `agent_network = false`"""
    agent_search: bool = False
    """Whether the agent may search the web; its service does so, beyond the sandbox. Example: `agent_search = true`"""
    read: form.Patterns = ()
    """More paths of this machine that programs may read. Example: `read = ["~/.cache/huggingface"]`"""
    cache: form.Patterns = ()
    """Folders that goalseek keeps between measurements; isolation is weaker, as one candidate may influence the next.
    Example: `cache = ["~/.cache/ccache"]`"""
    devices: form.Devices = "auto"
    """Devices that verify commands may use; `auto` is the graphics cards. Example: `devices = ["/dev/nvidia0"]`"""


class ApproveTable(Struct, frozen=True, kw_only=True):
    """Which verdicts wait for a person."""

    before: Literal["never", "kept", "each"] = "never"
    """Which verdicts wait for a person: none, that a change is `kept`, or `each`. Example: `before = "kept"`"""


class NotifyTable(Struct, frozen=True, kw_only=True):
    """A program that gets each event as JSON: a kept change, a limit nearly spent, a question, and the end."""

    command: form.Patterns | None = None
    """The program; it gets one JSON object per event on its standard input.
    Example: `command = ["sh", "-c", "cat >> ~/goalseek.jsonl"]`"""


class LogTable(Struct, frozen=True, kw_only=True):
    """Where records and artifacts lie, and how many stay."""

    branch_prefix: form.BranchPrefix = "goalseek"
    """The beginning of the name of the climb's branch. Example: `branch_prefix = "climbs"`"""
    home: form.FolderPath = ".goalseek"
    """The folder of records and artifacts, in the manifest's folder. Example: `home = "experiments"`"""
    keep_runs: form.Count = 500
    """How many artifact folders stay, the newest ones; all records stay. Example: `keep_runs = 50`"""
    keep_outputs: Literal["best", "none", "kept"] = "best"
    """Whose `outputs` stay: those of the `best`, of every `kept` change, or of `none`.
    Example: `keep_outputs = "kept"`"""


class Manifest(Struct, frozen=True, kw_only=True):
    """A whole manifest, checked, with every default in place."""

    version: Literal[1]
    """The version of the manifest's format, which is 1. Example: `version = 1`"""
    project: ProjectTable
    scope: ScopeTable
    metric: Metric
    verify: tuple[VerifyCommand, ...]
    setup: Setup | None = None
    env: EnvironmentTable = EnvironmentTable()
    guard: tuple[Guard, ...] = ()
    cheat: tuple[Cheat, ...] = ()
    holdout: Holdout | None = None
    provider: ProviderTable | None = None
    price: tuple[Price, ...] = ()
    review: ReviewTable | None = None
    limits: Limits = Limits()
    search: Search = Search()
    parallel: Parallel = Parallel()
    sandbox: SandboxTable = SandboxTable()
    approve: ApproveTable = ApproveTable()
    notify: NotifyTable = NotifyTable()
    log: LogTable = LogTable()

    @property
    def commands(self) -> tuple[VerifyCommand, ...]:
        """The commands of each measurement: the one that runs for the holdout alone is none of them."""
        name = self.holdout.command if self.holdout else None
        return tuple(command for command in self.verify if command.name != name)

    def outputs_before(self, command: VerifyCommand) -> list[str]:
        """The globs of what the commands before this one hand on, made of the candidate."""
        before = self.commands[: self.commands.index(command)]
        return [glob for other in before if other.sees != "hidden" for glob in other.outputs]

    @property
    def one_bench_reason(self) -> str:
        """The reason why only one measurement at a time counts; "" if several may run."""
        if self.metric.source in TIME_SOURCES:
            return "times are measured one at a time: one bench"
        if self.metric.exclusive != "none":
            return f'metric.exclusive = "{self.metric.exclusive}" allows one measurement at a time: one bench'
        return ""

    def agents_and_benches(
        self,
        jobs: int | None,
        median_proposal: float | None = None,
        median_measurement: float | None = None,
        workers: int = 0,
    ) -> tuple[int, int]:
        """The numbers of proposals and measurements at once; ``jobs`` is the value of ``iterate --jobs``, if given.

        The ``workers`` of a cluster are the benches.

        With "auto", as many agents as keep every bench at work: benches * (1 + ``median_proposal`` /
        ``median_measurement``). Medians are seconds of this climb's iterations, None without any. At least one a bench,
        else at most 8.
        """
        agents, benches = jobs or self.parallel.agents, workers or jobs or self.parallel.benches
        benches = 1 if self.one_bench_reason and not workers else benches
        if agents != "auto":
            return agents, benches
        if not median_proposal or not median_measurement:
            return benches, benches
        busy = benches * (1 + median_proposal / median_measurement)
        return max(benches, round(min(busy, MOST_AUTO_AGENTS))), benches
