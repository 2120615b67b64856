"""The user's repository: revisions, refs, commits, status. Only objects and goalseek's own refs are written."""

import contextlib
import functools
import os
import re
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice, pairwise

from msgspec import Struct

from goalseek import process
from goalseek.disk import add_own, full_disk_error, refuse_full, write_atomic
from goalseek.errors import GitFailed, GoalseekError
from goalseek.git.command import git, git_as_user
from goalseek.git.location import Location, checked_out_refs
from goalseek.git.objects import BatchProcesses, Entry, MissingObject, Objects, ObjectsFailed, alternates
from goalseek.phase_values import Candidate
from goalseek.values import StopReason

_TRAILER = "Goalseek-"
_LOCK_TRIES = 40
_LOCK_PAUSE = 0.05
_TRANSIENT_ERRORS = re.compile("File exists|but expected")


class Commit(Struct, frozen=True):
    """Bytes that are not UTF-8 are surrogates."""

    name: str
    tree: str
    parents: tuple[str, ...]
    committer: str
    message: str

    @property
    def subject(self) -> str:
        return self.message.split("\n", 1)[0]

    @property
    def last_line(self) -> str:
        """In a ledger commit, the record."""
        return self.message.rstrip("\n").rpartition("\n")[2]

    @property
    def time(self) -> int:
        return int(self.committer.rsplit(" ", 2)[1])

    @property
    def trailers(self) -> dict[str, str]:
        """Goalseek's, by their names without ``Goalseek-``."""
        last = self.message.rstrip("\n").rpartition("\n\n")[2]
        rows = (line.partition(": ") for line in last.split("\n") if line.startswith(_TRAILER))
        return {name.removeprefix(_TRAILER): value for name, _, value in rows}


class UnreadableCommit(Exception):
    """It is missing, or its content does not have its hash; the text says which."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(why)
        self.name = name


@functools.lru_cache(maxsize=64)  # an iteration names the last ten commits of the tip again, and its own
def parse_commit(name: str, content: bytes) -> Commit:
    """``content`` is that of ``git cat-file commit``."""
    head, _, message = content.decode("utf-8", "surrogateescape").partition("\n\n")
    lines = head.split("\n")
    parents = tuple(line.removeprefix("parent ") for line in lines if line.startswith("parent "))
    committer = next((line for line in lines if line.startswith("committer ")), "")
    return Commit(name, lines[0].removeprefix("tree "), parents, committer, message)


class RefMove(Struct, frozen=True):
    """A compare-and-swap: the ref must be at ``before`` (None: absent)."""

    ref: str
    before: str | None
    after: str


class Refs(Struct, frozen=True):
    """None for an absent ref; ``branch_is_checked_out`` counts every worktree."""

    tip: str | None
    ledger: str | None
    branch: str | None
    branch_is_checked_out: bool


class RefMoved(Exception):
    """A compare-and-swap failed: somebody else moved the ref."""


DEFAULT_BRANCH_PREFIX = "goalseek"
_BRANCH_FILE = "branch"


class Repository(contextlib.AbstractContextManager["Repository"]):
    """One repository for one project name. Close it when done."""

    def __init__(self, location: Location, name: str, branch_prefix: str = DEFAULT_BRANCH_PREFIX) -> None:
        self.location = location
        self.top = location.top
        self.name = name
        self.own = location.own(name)
        add_own(self.own)
        self.tip_ref = f"refs/goalseek/{name}/tip"
        self.ledger_ref = f"refs/goalseek/{name}/ledger"
        self.flight_ref = f"refs/goalseek/{name}/flight"
        self.try_ref = f"refs/goalseek/{name}/try"
        self.branch = f"{branch_prefix}/{name}"
        self.branch_ref = f"refs/heads/{self.branch}"
        self.tries_folder = self.own / "tries"
        self._recent = self.own / "recent"
        # A prune may take a commit between its link and git's look at it: here git finds it all the same.
        variables = {"GIT_DIR": str(location.git_dir), **alternates(self._recent)}
        self._processes = BatchProcesses(location.git_dir, variables)

    @functools.cached_property
    def objects(self) -> Objects:
        """Made when first asked for; a writing command asks once it holds the lock and has removed what a kill left."""
        self.own.mkdir(parents=True, exist_ok=True)
        git_dir, store = self.own / "objects.git", self.location.common_dir / "objects"
        settings = {}
        with contextlib.suppress(GitFailed):  # it is not set
            shared = git("config", "core.sharedRepository", git_dir=self.location.git_dir).decode().strip() or "true"
            key = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.sharedRepository"}
            settings = {**key, "GIT_CONFIG_VALUE_0": shared}
        is_new = not git_dir.exists()
        objects = Objects(git_dir, store, self.location.object_format, self._recent, settings)
        for folder in (self.own.parent, self.own) if is_new else ():
            with contextlib.suppress(PermissionError):  # another account has made it, and given it these rights
                shutil.copymode(git_dir, folder)  # git made it, with the rights of a shared repository
        return objects

    def close(self) -> None:
        if objects := self.__dict__.pop("objects", None):
            objects.close()
        self._processes.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def git(self, *arguments: str, stdin: bytes = b"") -> bytes:
        variables = alternates(self._recent) if self._recent.is_dir() else {}
        return git(*arguments, git_dir=self.location.git_dir, folder=self.top, stdin=stdin, variables=variables)

    def git_as_user(self, *arguments: str, **variables: str) -> process.CompletedProgram:
        """In the user's checkout, as they would type it."""
        return git_as_user(*arguments, folder=self.top, variables={**self.folder_variables(), **variables})

    def folder_variables(self) -> dict[str, str]:
        """They name git directory and checkout, since ``core.worktree`` may be elsewhere."""
        return {"GIT_DIR": str(self.location.git_dir), "GIT_WORK_TREE": str(self.top)}

    def resolve(self, revision: str) -> str | None:
        """None if the revision names no commit."""
        try:
            output = self.git("rev-parse", "--verify", "--quiet", "--end-of-options", revision + "^{commit}")
        except GitFailed:
            return None
        name = output.decode().strip()
        return None if name.startswith("^") else name

    def position(self, ref: str) -> str | None:
        """None for an absent ref, and for one whose object is missing."""
        return self.positions(ref)[0]

    def positions(self, *refs: str) -> tuple[str | None, ...]:
        """As ``position``; by one request to a git process that stays open."""
        reply = self._processes.send(("cat-file", "--batch-check"), "".join(f"{ref}\n" for ref in refs).encode())
        lines = [reply.line, *(reply.next_line() for _ in refs[1:])]
        return tuple(None if line.endswith(b" missing") else line.split(b" ")[0].decode() for line in lines)

    def head(self) -> str:
        """Raises GoalseekError if there is no commit yet."""
        commit = self.position("HEAD")
        if commit is None:
            hint = "run: git add -A && git commit -m start"
            raise GoalseekError(f"{self.top} has no commit yet", hint, StopReason.REPOSITORY)
        return commit

    def tree_of(self, commit: str) -> str:
        return self.load_commit(commit).tree

    def files_of(self, commit: str) -> dict[str, Entry]:
        return self.objects.files(self.tree_of(commit))

    def load_commit(self, name: str) -> Commit:
        """That its content has its hash is not checked. Raises MissingObject."""
        return parse_commit(name, self.objects.read(name))

    def read_commit(self, name: str) -> Commit:
        """By its full hash, which its content is checked to have. Raises UnreadableCommit."""
        objects = self.objects
        if not re.fullmatch(f"[0-9a-f]{{{len(objects.zero)}}}", name):
            raise UnreadableCommit(name, "no hash of a commit")
        try:
            content = objects.read(name)
        except MissingObject:
            raise UnreadableCommit(name, "no such object") from None
        except (ObjectsFailed, BrokenPipeError, ValueError) as error:
            objects.close()
            raise UnreadableCommit(name, f"an object that git cannot read: {error}") from None
        if objects.hash_of(content, "commit") != name:
            objects.close()
            raise UnreadableCommit(name, "a damaged object, or one that is no commit")
        return parse_commit(name, content)

    def refs(self) -> Refs:
        refs = (self.tip_ref, self.ledger_ref, self.branch_ref)
        tip, ledger, branch = self.positions(*refs)
        heads = checked_out_refs(self.location)
        if tip and ledger and branch and heads is not None:
            return Refs(tip, ledger, branch, self.branch_ref in heads)
        # Others cannot tell an absent ref from one whose object is missing.
        listing = self.git("for-each-ref", "--format=%(refname) %(objectname) %(worktreepath)", *refs)
        commits = {}
        for line in listing.decode("utf-8", "surrogateescape").splitlines():
            ref, commit, path = line.split(" ", 2)
            commits[ref] = (commit, path)
        (tip, _), (ledger, _), (branch, path) = (commits.get(ref, (None, "")) for ref in refs)
        return Refs(tip, ledger, branch, bool(path.strip()))

    def move(self, moves: Sequence[RefMove]) -> None:
        """All or none. Raises RefMoved if one is not where it should be.

        Waits for a lock of another git (a fetch). Raises GoalseekError if that lasts, or git fails for another reason.
        """
        if not moves:
            return
        zero = self.objects.zero
        lines = ["start", *(f"update {move.ref} {move.after} {move.before or zero}" for move in moves)]
        request = "\n".join([*lines, "prepare", "commit\n"]).encode()
        for _ in range(_LOCK_TRIES):
            try:
                replies = self._processes.send(("update-ref", "--stdin"), request).lines()
                list(islice(replies, 3))  # of start, prepare and commit
            except ObjectsFailed as failure:
                stderr = failure.stderr or str(failure)
            else:
                return
            positions = [self.resolve(move.ref) for move in moves]
            if positions == [move.after for move in moves]:
                return  # git moved them, and ended before it replied
            if positions != [move.before for move in moves] or "cannot create" in stderr:
                raise RefMoved(stderr)
            if not _TRANSIENT_ERRORS.search(stderr):
                break
            time.sleep(_LOCK_PAUSE)  # a new process finds packed refs that changed meanwhile
        refuse_full(self.location.common_dir)  # git does not say why it cannot write
        error = GitFailed(("update-ref", moves[0].ref), 1, stderr.encode())
        lock = "if no other git is running, remove the lock that it names; then run the same command again"
        hint = lock if "File exists" in stderr else "see that git can write there, and run the same command again"
        message = f"git cannot move {moves[0].ref}: {stderr}"
        raise full_disk_error(error) or GoalseekError(message, hint, StopReason.REPOSITORY)

    def flight(self) -> dict[int, tuple[str, ...]]:
        """Commits of candidates that have not landed, by iteration, oldest first."""
        flight = sorted(self._flight.items())
        return {iteration: tuple(commit for _, commit in sorted(by.items())) for iteration, by in flight}

    def add_flight(self, iteration: int, attempt: int, commit: str) -> None:
        """Makes the commit reachable until its iteration is recorded."""
        commits = self._flight[iteration]
        self.move([RefMove(f"{self.flight_ref}/{iteration}/{attempt}", commits.get(attempt), commit)])
        commits[attempt] = commit

    def remove_flight(self, iteration: int) -> None:
        """To be called once the iteration's record makes the commits reachable."""
        commits = self._flight.pop(iteration, {})
        folder = self.location.common_dir / self.flight_ref / str(iteration)
        packed, name = self.location.common_dir / "packed-refs", f"{self.flight_ref}/{iteration}/".encode()
        is_loose = folder.is_dir() and not (packed.exists() and name in packed.read_bytes())
        for path in folder.glob("*"):  # git would lock packed-refs, and a kill leave that to the user
            path.unlink()
        with contextlib.suppress(OSError):
            folder.rmdir()
            folder.parent.rmdir()
        if commits and not is_loose:
            deletions = (f"delete {self.flight_ref}/{iteration}/{attempt}\n" for attempt in commits)
            self.git("update-ref", "--stdin", stdin="".join(deletions).encode())

    @functools.cached_property
    def _flight(self) -> dict[int, dict[int, str]]:
        """By iteration and attempt; read once, as only the holder of the lock moves them."""
        commits = defaultdict[int, dict[int, str]](dict)
        listing = self.git("for-each-ref", "--format=%(refname:lstrip=4)/%(objectname)", self.flight_ref).decode()
        for line in listing.splitlines():
            iteration, attempt, commit = line.split("/")
            commits[int(iteration)][int(attempt)] = commit
        return commits

    def tries(self) -> dict[str, str]:
        """Commits of the tries without a record, by session, oldest first."""
        if not self.tries_folder.exists():  # nobody ever tried here, and the loop asks before each iteration
            return {}
        how = ("--sort=creatordate", "--format=%(refname:lstrip=4) %(objectname)")
        listing = self.git("for-each-ref", *how, self.try_ref).decode()
        return dict(line.split(" ") for line in listing.splitlines())

    @property
    def last_try_request(self) -> int:
        """Its time, in nanoseconds; 0 before the first."""
        try:
            return self.tries_folder.stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def remove_try(self, commit: str) -> None:
        """Of whichever session it is."""
        for session in [session for session, waiting in self.tries().items() if waiting == commit]:
            self.git("update-ref", "-d", f"{self.try_ref}/{session}", commit)

    def is_ancestor(self, older: str, newer: str) -> bool:
        try:
            self.git("merge-base", "--is-ancestor", older, newer)
        except GitFailed:
            return False
        return True

    def refuse_conflicting_branch(self) -> None:
        """Raises GoalseekError if the name of an existing branch makes ours impossible."""
        parts = self.branch.split("/")
        parents = ["/".join(parts[:count]) for count in range(1, len(parts))]
        listing = self.git("for-each-ref", "--format=%(refname:lstrip=2)", f"refs/heads/{parts[0]}").decode()
        for branch in listing.splitlines():
            if branch in parents or branch.startswith(self.branch + "/"):
                message = f"the branch {branch!r} is in the way: git cannot make {self.branch!r} beside it"
                hint = "name another prefix than {} in the manifest, by these two lines:\n    [log]\n    "
                hint = f'{hint.format(parts[0])}branch_prefix = "climbs"\n  or run: git branch -m {branch} {branch}-old'
                raise GoalseekError(message, hint, StopReason.REPOSITORY)

    def note_branch(self) -> None:
        write_atomic(self.own / _BRANCH_FILE, self.branch)

    def is_own_branch(self) -> bool:
        """The usual prefix is goalseek's; another only if goalseek made the branch."""
        note = self.own / _BRANCH_FILE
        is_usual = self.branch == f"{DEFAULT_BRANCH_PREFIX}/{self.name}"
        return is_usual or (note.exists() and note.read_text() == self.branch)

    def changed_files(self) -> list[tuple[str, str]]:
        """Rows (two letters, path) of ``git status`` as the user configured it. Raises GoalseekError if it fails."""
        arguments = ["status", "--porcelain", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules"]
        answer = self.git_as_user("-c", "core.fsmonitor=false", *arguments, GIT_OPTIONAL_LOCKS="0")
        if answer.returncode:
            hint = "make it work with the PATH and the configuration of this call, then run the same command"
            printed = answer.stderr.decode("utf-8", "replace").strip()
            raise GoalseekError(f"git status fails in {self.top}:\n{printed}", hint, StopReason.REPOSITORY)
        return [(item[:2], item[3:]) for item in os.fsdecode(answer.stdout).split("\0") if item]

    def is_ignored(self, path: str) -> bool:
        """Under the user's own configuration."""
        return self.git_as_user("check-ignore", "--quiet", "--", path).returncode == 0


def walk_first_parents(
    read: Callable[[str], Commit], name: str | None, boundary: Collection[str] = ()
) -> Iterator[Commit]:
    """Newest first; nothing for None. Ends at a commit of ``boundary``: a shallow clone lacks their parents."""
    while name:
        commit = read(name)
        yield commit
        name = commit.parents[0] if commit.parents and name not in boundary else None


def commit_lines(repository: Repository, commit: str, limit: int) -> list[str]:
    """Short hash and subject, newest first."""
    shallow = repository.location.common_dir / "shallow"
    boundary = shallow.read_text().split() if shallow.exists() else []  # a shallow clone's history ends at these
    commits = islice(walk_first_parents(repository.load_commit, commit, boundary), limit)
    lines = (f"{one.name[:12]} {one.subject}" for one in commits)
    return [line.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for line in lines]


def candidate_message(title: str, project: str, run_id: str, iteration: int, provider: str) -> str:
    """The title, and the trailers by which goalseek recognises the commit."""
    return with_trailers(title, Project=project, Run=run_id, Iteration=str(iteration), Provider=provider)


def with_trailers(text: str, **trailers: str) -> str:
    return text + "\n\n" + "".join(f"{_TRAILER}{name}: {value}\n" for name, value in trailers.items() if value)


def candidate_commits(
    read: Callable[[str], Commit], name: str, tip: str, project: str, iteration: int
) -> tuple[str, ...]:
    """Those of its attempts from the tip up to this one, oldest first; empty if one is another's."""
    names: tuple[str, ...] = ()
    for commit in walk_first_parents(read, name):
        trailers = commit.trailers
        is_ours = (trailers.get("Project"), trailers.get("Iteration")) == (project, str(iteration))
        if not is_ours or len(commit.parents) != 1:
            break
        names = (commit.name, *names)
        if commit.parents == (tip,):
            return names
    return ()


def revert_message(commit: Commit) -> str:
    """As ``git revert --no-edit`` writes it."""
    return f'Revert "{commit.subject}"\n\nThis reverts commit {commit.name}.\n'


def roll_back(repository: Repository, candidate: Candidate, moment: int) -> str:
    """Revert a candidate's commits, newest first, as ``git revert --no-edit`` does; returns the last hash."""
    tip = candidate.commit
    for before, name in reversed(list(pairwise((candidate.parent, *candidate.commits)))):
        message = revert_message(repository.load_commit(name))
        tip = repository.objects.write_commit(repository.tree_of(before), (tip,), message, moment)
    return tip


def ref_moved_error(ref: str, expected: str, actual: str | None) -> GoalseekError:
    actual = (actual or "nothing")[:12]
    message = f"somebody moved {ref}: goalseek left it at {expected[:12]}, and now it is at {actual}"
    hint = f"to move it back: git update-ref {ref} {expected}"
    if "refs/goalseek/" in ref:
        hint += "; if another clone went on from the same record: goalseek help recipe-machines"
    if not ref.endswith("/ledger"):
        hint += "; to start from your own commit: move it back, then goalseek baseline --from COMMIT"
    return GoalseekError(message, hint, StopReason.NEEDS_HUMAN)
