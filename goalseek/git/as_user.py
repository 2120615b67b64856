"""Git as the user runs it: under their own configuration, with their identity, signature and hooks.

Commits are made in a temporary work tree that ``git worktree list`` does not show; the checkout is only read.
"""

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from goalseek.disk import add_own, full_disk_error, remove_own
from goalseek.errors import BAD_FINDING, UNFIT, USAGE, GoalseekError
from goalseek.git.command import git, git_as_user
from goalseek.git.objects import Entry, Objects, alternates
from goalseek.git.paths import SYMLINK, quote_path
from goalseek.git.repository import Repository
from goalseek.process import CompletedProgram, environment_without, is_alive, run
from goalseek.values import StopReason

_FOLDER = "promote-"
_COMMIT_CONFIG = (
    "-c gc.auto=0 -c maintenance.auto=false -c core.fsmonitor=false -c core.untrackedCache=false "
    "-c core.sparseCheckout=false -c core.splitIndex=false -c i18n.commitEncoding=UTF-8"
).split()
_NO_HOOKS = (
    "the same without your hooks: goalseek promote --patch home.patch; git am --keep --keep-cr --no-verify home.patch"
)
_UNSIGNED = "unsigned: goalseek promote --patch home.patch; git -c commit.gpgSign=false am --keep --keep-cr home.patch"


class PlannedCommit(Struct, frozen=True):
    """``iterations`` are those whose changes it holds."""

    tree: str
    message: str
    iterations: tuple[int, ...]
    files: tuple[str, ...]


@contextlib.contextmanager
def temporary_objects(repository: Repository) -> Iterator[Objects]:
    """On top of the repository's store; removed after this block with all that it holds."""
    below = repository.objects
    with temporary_folder(repository.own, _FOLDER) as folder:
        objects = Objects(below.git_dir, folder, below.object_format, settings=alternates(below.store))
        with contextlib.closing(objects):
            yield objects


def commit_without_hooks(repository: Repository, objects: Objects, plans: Sequence[PlannedCommit], base: str) -> str:
    """Make the user's commits in this store, without hooks or signatures, for a mailbox; returns the last hash."""
    variables = {**objects.variables, "GIT_DIR": str(repository.location.git_dir)}
    commit = base
    for plan in plans:
        arguments = ["-c", "i18n.commitEncoding=UTF-8", "commit-tree", plan.tree, "-p", commit]
        message = plan.message.encode("utf-8", "replace")
        answer = git_as_user(*arguments, folder=repository.top, stdin=message, variables=variables)
        if answer.returncode:
            raise _commit_error(repository, plan, answer, has_hooks=False)
        commit = answer.stdout.decode().strip()
    return commit


def commit_all(repository: Repository, plans: Sequence[PlannedCommit], base: str) -> str:
    """By ``git commit`` with hooks; returns the last hash. Raises GoalseekError if git refuses, or a hook edits one."""
    answer = repository.git_as_user("rev-parse", "--path-format=absolute", "--git-path", "hooks")
    hooks = Path(os.fsdecode(answer.stdout.rstrip(b"\n")))  # as their checkout has them
    has_hooks = (not answer.returncode and hooks.is_dir()) and any(
        os.access(path, os.X_OK) and path.suffix != ".sample" and path.is_file() for path in hooks.iterdir()
    )
    options = [*_COMMIT_CONFIG, *(["-c", f"core.hooksPath={hooks}"] if has_hooks else [])]
    # Below the repository's own git directory, so that `includeIf "gitdir:..."` holds here too.
    with temporary_folder(repository.own, _FOLDER) as git_dir:
        work_tree = _work_tree_of(git_dir)
        (git_dir / "gitdir").write_bytes(os.fsencode(work_tree / ".git") + b"\n")
        (git_dir / "commondir").write_bytes(os.fsencode(repository.location.common_dir) + b"\n")
        (git_dir / "HEAD").write_text(base + "\n")
        with contextlib.suppress(FileNotFoundError):  # it may name the user; its ``core`` has paths
            config = git_dir / "config.worktree"
            config.write_bytes((repository.location.git_dir / "config.worktree").read_bytes())
            repository.git_as_user("config", "--file", str(config), "--remove-section", "core")
        work_tree.mkdir(mode=0o700)
        (work_tree / ".git").write_bytes(b"gitdir: " + os.fsencode(git_dir) + b"\n")
        variables = {"GIT_INDEX_FILE": str(git_dir / "index"), "GIT_WORK_TREE": str(work_tree)}
        for plan in plans:
            # By the tool's own git directory: the files before the hooks are the bytes that were measured, whatever
            # filters the user has, which may fail in a place that they do not know.
            reading = ("read-tree", "--reset", *(["-u"] if has_hooks else []), plan.tree)
            repository.objects.git(*reading, variables=variables)
            arguments = [*options, "commit", "--quiet", "--cleanup=verbatim", "--file", "-"]
            answer = git_as_user(*arguments, folder=work_tree, stdin=plan.message.encode("utf-8", "replace"))
            if answer.returncode:
                raise _commit_error(repository, plan, answer, has_hooks)
            base = git("rev-parse", "HEAD", git_dir=git_dir).decode().strip()  # a hook may have switched to a branch
            if changed := repository.objects.changed_paths(plan.tree, repository.tree_of(base)):
                names = ", ".join(map(quote_path, changed))
                error = f"your git hook changed {names} in {_iterations_text(plan)}: the result was not measured"
                raise GoalseekError(error, f"no branch was made; {_NO_HOOKS}", BAD_FINDING)
        return base


def refuse_branch(repository: Repository, name: str) -> None:
    """Raises GoalseekError if a new branch cannot have this name: existing branches are never moved."""
    answer = repository.git_as_user("check-ref-format", "--branch", name)
    if answer.returncode or os.fsdecode(answer.stdout) != name + "\n":  # it gives the branch that `@{-1}` stands for
        raise GoalseekError(f"--branch {name!r} is no name for a branch", "see: git help check-ref-format", USAGE)
    parts = name.split("/")
    above = [f"refs/heads/{'/'.join(parts[:depth])}" for depth in range(1, len(parts))]
    existing = repository.git("for-each-ref", "--format=%(refname)", f"refs/heads/{name}").decode().split()
    existing_above = repository.git("for-each-ref", "--format=%(refname)", *above).decode().split() if above else []
    if parts[0] == "goalseek" and "refs/heads/goalseek" not in (*existing, *existing_above):
        raise GoalseekError(f"--branch {name!r}: goalseek/ is for goalseek's own branches", "name another", USAGE)
    is_link = not repository.git_as_user("symbolic-ref", "--quiet", f"refs/heads/{name}").returncode
    if existing or is_link or set(existing_above) & set(above):
        message = f"the branch {name!r} exists, or a branch is in its way"
        raise GoalseekError(message, "name a new one; existing branches are never moved", USAGE)
    if f"branch refs/heads/{name}\n" in os.fsdecode(repository.git("worktree", "list", "--porcelain")) + "\n":
        message = f"the branch {name!r} is checked out somewhere, though it has no commit yet"
        raise GoalseekError(message, "name another; a branch that is checked out is never moved", USAGE)


def make_branch(repository: Repository, name: str, commit: str) -> None:
    """Raises GoalseekError if git makes none."""
    answer = repository.git_as_user("branch", "--no-track", name, commit)
    if answer.returncode:
        hint = f"the commits exist; make the branch yourself: git branch NAME {commit}"
        raise GoalseekError(f"git made no branch {name!r}: {_output_text(answer)}", hint, UNFIT)


def format_mailbox(objects: Objects, base: str, commit: str) -> bytes:
    """The commits after the base, for ``git am --keep``: a title may begin with a word in brackets."""
    how = ("--stdout", "--keep-subject", "--binary", "--full-index", "--no-signature")
    return objects.git("format-patch", *how, f"{base}..{commit}")


@contextlib.contextmanager
def temporary_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """Of this process; if it is killed, the next one removes the folder. ``prefix`` ends in "-"."""
    for leftover in parent.glob(f"{prefix}*"):
        if not is_alive(int(leftover.name.removeprefix(prefix).split("-")[0])):
            _remove_with_work_tree(leftover)
    folder = Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=parent))
    add_own(folder)
    try:
        yield folder
    finally:
        _remove_with_work_tree(folder)


def _work_tree_of(git_dir: Path) -> Path:
    """Not below the git directory, since some hooks refuse to work in a ``.git``."""
    return Path(tempfile.gettempdir(), f"goalseek-{git_dir.name}")


def _remove_with_work_tree(folder: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        work_tree = Path(os.fsdecode((folder / "gitdir").read_bytes().removesuffix(b"/.git\n")))
        if work_tree.name == _work_tree_of(folder).name:
            add_own(work_tree)
            remove_own(work_tree)
    add_own(folder)  # a killed process knew that it is
    remove_own(folder)


def _commit_error(
    repository: Repository, plan: PlannedCommit, answer: CompletedProgram, has_hooks: bool
) -> GoalseekError:
    hints = [_NO_HOOKS] if has_hooks else []
    if repository.git_as_user("var", "GIT_AUTHOR_IDENT").returncode:
        hints = ['git config user.name "Your Name" && git config user.email you@example.com']
    elif repository.git_as_user("config", "--type=bool", "commit.gpgSign").stdout == b"true\n":
        hints.append(_UNSIGNED)
    text = f"git made no commit of {_iterations_text(plan)}: {_output_text(answer)}"
    return GoalseekError(text, "; ".join(["no branch was made", *hints]), StopReason.REPOSITORY)


def _iterations_text(plan: PlannedCommit) -> str:
    return f"iteration{'s' if len(plan.iterations) > 1 else ''} {', '.join(map(str, plan.iterations))}"


def _output_text(answer: CompletedProgram) -> str:
    return (answer.stderr + answer.stdout).decode("utf-8", "replace").strip()


_OVERRIDES = ("core.fsmonitor=false", "core.hooksPath=/dev/null", "core.splitIndex=false", "core.untrackedCache=false")


class UsersCheckout(Struct, frozen=True):
    """The user's checkout as what holds edits; HEAD, index and stash stay as they are."""

    repository: Repository

    def read(self) -> tuple[str, list[str]]:
        """Its tree, as by the user's ``git add --all``, and why it cannot be tried, which is never so here.

        Raises GoalseekError for an unreadable file, and during a merge with conflicts.
        """
        repository = self.repository
        options = [word for setting in _OVERRIDES for word in ("-c", setting)]
        with repository.objects.scratch_file("index") as index:
            # The copy knows which files need not be read again. By its time, git knows which were written in the same
            # second as it, and may have changed since all the same.
            with contextlib.suppress(FileNotFoundError):
                shutil.copy2(repository.location.git_dir / "index", index)
            output = b""
            for arguments in (["ls-files", "--unmerged", "-z"], ["add", "--all"], ["write-tree"]):
                if output:
                    paths = {line.partition(b"\t")[2] for line in output.split(b"\0")[:-1]}
                    names = ", ".join(quote_path(os.fsdecode(path)) for path in paths)
                    message = f"a merge has left conflicts in {names}"
                    raise GoalseekError(message, "resolve them, git add them, then this again", BAD_FINDING)
                answer = repository.git_as_user(*options, *arguments, GIT_INDEX_FILE=str(index), GIT_OPTIONAL_LOCKS="0")
                if answer.returncode:
                    message = f"git cannot store the files of the checkout: {_output_text(answer)}"
                    hint = "what is no part of the project can be named in .git/info/exclude"
                    error = GoalseekError(message, hint, StopReason.REPOSITORY)
                    raise full_disk_error(error) or error
                output = answer.stdout
            return output.decode().strip(), []

    def unseen(self, seen: Mapping[str, Entry | None]) -> list[str]:
        """Paths that have something else than ``read`` saw there: an ignored file, say."""
        top = self.repository.top
        regular = [
            path for path, entry in seen.items() if entry and entry.mode != SYMLINK and os.path.lexists(top / path)
        ]
        # git add passes over files that the user told it to take for unchanged
        answer = self.repository.git_as_user("hash-object", "--", *regular)
        there = [*answer.stdout.decode().split(), *[""] * len(regular)]  # it ends at a folder
        hashes = dict(zip(regular, there, strict=False))

        def is_unseen(path: str, entry: Entry | None) -> bool:
            above = (top / path).parents[: path.count("/")]
            is_in_the_way = any(os.path.lexists(each) and (each.is_symlink() or not each.is_dir()) for each in above)
            is_new = entry is None and os.path.lexists(top / path)
            return is_in_the_way or is_new or (entry is not None and hashes.get(path, entry.blob) != entry.blob)

        return [path for path, entry in seen.items() if is_unseen(path, entry)]

    def write(self, entries: Mapping[str, Entry | None]) -> None:
        """Write these files, with the user's filters; None removes one."""
        top, objects = self.repository.top, self.repository.objects
        for path in [path for path, entry in entries.items() if entry is None]:
            (top / path).unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # others are in that folder
                (top / path).parent.rmdir()
        with objects.scratch_file("index") as index:
            objects.index(index, {path: entry for path, entry in entries.items() if entry})
            arguments = ("-c", "core.fsmonitor=false", "checkout-index", "--all", "--force")
            answer = self.repository.git_as_user(*arguments, GIT_INDEX_FILE=str(index))
            if answer.returncode:
                message = f"git cannot write the files of the checkout: {_output_text(answer)}"
                raise GoalseekError(message, "", StopReason.REPOSITORY)


SUFFIXES = {"ssh": ".sig", "openpgp": ".asc"}
_NAMESPACE = "goalseek"  # a signature of a claim is none of a commit
_LITERAL_KEYS = ("key::", "ssh-", "ecdsa-", "sk-")


class Signature(Struct, frozen=True):
    key: str
    suffix: str  # of SUFFIXES
    content: bytes


def sign(folder: Path, content: bytes) -> Signature | None:
    """By ``user.signingkey``, as ``gpg.format`` says; None without a key. Raises GoalseekError if it cannot sign."""

    def setting(name: str) -> str:
        return os.fsdecode(git_as_user("config", "--get", name, folder=folder).stdout).strip()

    form, key = setting("gpg.format") or "openpgp", setting("user.signingkey")
    if not key:
        return None
    if form not in SUFFIXES:
        raise GoalseekError(f"a claim cannot be signed with gpg.format = {form}", "git config gpg.format ssh", UNFIT)
    usual = "ssh-keygen" if form == "ssh" else setting("gpg.program") or "gpg"
    program = setting(f"gpg.{form}.program") or usual
    with tempfile.NamedTemporaryFile("w", suffix=".pub") as file:
        words = ["-bsau", key]
        if form == "ssh":
            words = ["-Y", "sign", "-n", _NAMESPACE, "-f", os.path.expanduser(key)]
        if form == "ssh" and key.startswith(_LITERAL_KEYS):  # an agent has the private key
            print(key.removeprefix("key::"), file=file, flush=True)
            words[-1:] = [file.name, "-U"]
        answer = _run(content, program, *words)
    if answer.returncode or not answer.stdout:
        message = f"{program} cannot sign with user.signingkey = {key}: {_output_text(answer)}"
        raise GoalseekError(message, "make the key usable; or unsigned: git config --unset user.signingkey", UNFIT)
    return Signature(key, SUFFIXES[form], answer.stdout)


def check_signature(path: Path, signers: Path | None) -> str:
    """Who signed this file, in words, by the signature beside it; ``signers`` as git's ``gpg.ssh.allowedSignersFile``.

    Raises GoalseekError for a signature of other content, or by nobody in ``signers``.
    """
    by_ssh, by_gpg = (f"{path}{suffix}" for suffix in SUFFIXES.values())
    is_ssh, is_gpg, content = Path(by_ssh).exists(), Path(by_gpg).exists(), path.read_bytes()
    keygen, of = ("ssh-keygen", "-Y"), ("-n", _NAMESPACE, "-s", by_ssh)
    if not is_ssh and not is_gpg and signers:
        raise GoalseekError("nobody signed it", "leave --signers out to check it all the same", UNFIT)
    if not is_ssh and not is_gpg:
        return "unsigned"
    if not is_ssh:
        answer = _run(content, "gpg", "--status-fd=1", "--verify", by_gpg, "-")
        why = "gpg signed it, and --signers has ssh keys" if signers else _output_text(answer)
        if not signers and (key := re.search(r"\] NO_PUBKEY (\w+)", why)):
            return f"signed with the gpg key {key[1]}, which your keyring does not have: not checked"
        names = re.findall(r"\] (?:GOODSIG \w+|TRUST_)(.+)", why)
        who = f"with a gpg key of {', trust: '.join(names).strip()}"
    elif signers is None:
        answer = _run(content, *keygen, "check-novalidate", *of)
        why = _output_text(answer)
        who = f"with {why.rpartition(' with ')[2]}; --signers FILE says whose it is"
    else:
        found = _run(b"", *keygen, "find-principals", "-s", by_ssh, "-f", str(signers))
        name = os.fsdecode(found.stdout).partition("\n")[0]
        answer = _run(content, *keygen, "verify", "-f", str(signers), "-I", name, *of)
        why = f"it is none of {name or 'anybody'} in {signers} for {_NAMESPACE}: {_output_text(answer)}"
        who = f"by {name}"
    if answer.returncode or (signers and not is_ssh):
        raise GoalseekError(f"the signature does not hold: {why}", "ask for the claim once more", UNFIT)
    return f"signed {who}"


def _run(content: bytes, *arguments: str) -> CompletedProgram:
    try:
        return run(arguments, environment_without("GIT_"), content)
    except FileNotFoundError:
        raise GoalseekError(f"there is no program {arguments[0]}", "install OpenSSH, or GnuPG", UNFIT) from None
