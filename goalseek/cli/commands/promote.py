"""``goalseek promote``: the kept changes as commits of the user, on a branch or as a patch; or a preview of them."""

import contextlib
import shlex
from collections.abc import Callable, Set
from pathlib import Path

from msgspec import Struct, structs

from goalseek.cli.options import Options, Parser, refuse
from goalseek.cli.streams import print_bytes
from goalseek.disk import open_export
from goalseek.doctor.checks import check_fit, subject_of
from goalseek.errors import BAD_FINDING, GoalseekError
from goalseek.evaluation.ablation import PAIRS, Ablation, ablate, count_runs
from goalseek.evaluation.compare import BaseComparison, settle_on_base
from goalseek.git import as_user
from goalseek.git.as_user import PlannedCommit
from goalseek.git.objects import Objects
from goalseek.git.repository import Repository
from goalseek.humanize import format_duration, pluralize
from goalseek.ledger import promote
from goalseek.ledger.promote import KeptChain, load_kept_chain
from goalseek.ledger.results_file import load_standing
from goalseek.manifest.loading import ManifestFile, base_of, with_manifest_option
from goalseek.project.config import open_repository
from goalseek.project.opening import open_project
from goalseek.project.paths import fetch_hint, note_of_changed_shares
from goalseek.project.project import Project
from goalseek.views.terminal_text import Color, one_line
from goalseek.workspace.answers import answer_notes_at_head
from goalseek.workspace.places import cache_paths
from goalseek.workspace.scope import manifest_scope


class Promotion(Struct, frozen=True):
    """``unlike`` are files in which the result differs from the best; ``why_none`` is why there are no commits."""

    base: str
    promoted: tuple[PlannedCommit, ...]
    unlike: tuple[str, ...]
    why_none: str = "there is nothing to promote: no change was kept, or the base has them all"
    chain: KeptChain | None = None

    @property
    def iterations(self) -> set[int]:
        return {number for commit in self.promoted for number in commit.iterations}


def arguments(parser: Parser) -> None:
    parser.add_argument("--branch", metavar="NAME", help="make the commits, on this new branch")
    parser.add_argument("--onto", metavar="REV", help="the base (default: the commit that the climb began at)")
    parser.add_argument("--squash", action="store_true", help="make one commit of them")
    parser.add_argument("--patch", metavar="FILE", help="write them as a mailbox for git am; - is stdout")
    without = "leave out a kept iteration; repeatable, or 3,7"
    parser.add_argument("--without", metavar="N", action="append", default=[], help=without)
    ablate_help = "leave out kept changes without an effect; without --branch or --patch, only estimate the runs"
    parser.add_argument("--ablate", action="store_true", help=ablate_help)
    parser.add_argument("--pairs", type=int, metavar="N", help=f"pairs for each of them (default: {PAIRS})")
    parser.add_argument("--measure", action="store_true", help="measure base and result in turn")


def run(options: Options) -> int:
    refuse(
        (options.pairs is not None and not options.ablate, "--pairs goes with --ablate", "--ablate --pairs 8"),
        (options.pairs is not None and options.pairs < 1, f"--pairs {options.pairs}: at least 1", f"--pairs {PAIRS}"),
    )
    options.refuse_two_outputs("--patch", options.patch, "the patch")
    manifest = options.load_manifest()
    standing = load_standing(manifest)
    if standing.baseline is None:
        hint = fetch_hint(manifest) or "climb first: goalseek iterate"
        raise GoalseekError("nothing is measured yet, so no change was kept", hint)
    if warning := standing.worse_than_baseline or (standing.settled and standing.settled.result.no_gain):
        options.print_message(with_manifest_option(f"warning: {warning}", manifest.path))
    words = [word.strip() for text in options.without for word in text.split(",")]
    for word in words:
        if not (word.isascii() and word.isdigit()):
            raise GoalseekError(f"--without {word!r}: this is no iteration's number", "--without 3 --without 7")
    options.without = set(map(int, words))
    is_ablating = options.ablate and bool(options.branch or options.patch)
    if is_ablating and options.patch not in (None, "-") and not Path(options.patch).is_fifo():
        # Refused hours before it would be written; the path stays as it is. The reader of a FIFO waits for the patch.
        with contextlib.suppress(InterruptedError), open_export(Path(options.patch), "--patch"):
            raise InterruptedError
    if not (options.measure or is_ablating):
        with open_repository(manifest) as repository:
            return _carry_out(options, manifest, repository, None, None)
    with open_project(manifest, options.line_view(), doing="promote") as project:
        check_fit(subject_of(project, "promote"))
        repository, ablation = project.repository, None
        if is_ablating:
            whole = _promotion_maker(options, manifest, repository, options.without)(repository.objects)
            if whole.promoted and whole.chain:
                say = options.print_message
                ablation = ablate(project, whole.chain, whole.iterations, options.pairs or PAIRS, say)
        return _carry_out(options, manifest, repository, project if options.measure else None, ablation)


def _promotion_maker(
    options: Options, manifest: ManifestFile, repository: Repository, left_out: Set[int]
) -> Callable[[Objects], Promotion]:
    """A function that makes the promotion, and writes the trees of its commits to the given objects."""
    if options.branch is not None:
        as_user.refuse_branch(repository, options.branch)
    paths = cache_paths(repository.location, base_of(manifest, repository.top), repository.name)
    scope = manifest_scope(manifest, manifest.manifest, paths.prefix)

    def is_writable(path: str) -> bool:
        return scope.kind(path) == "writable"

    whole = load_kept_chain(repository, is_writable)
    base = whole.base if options.onto is None else repository.resolve(options.onto)
    if base is None:
        raise GoalseekError(f"--onto {options.onto}: there is no such commit", "name a commit, branch or tag")
    tree = repository.tree_of(base)
    head = None if options.onto is not None else repository.resolve("HEAD")

    if again := sorted(left_out & whole.taken_back.keys()):
        message = f"--without {again[0]}: iteration {whole.taken_back[again[0]]} already took it back"
        raise GoalseekError(message, "see: goalseek promote")

    def chain_on(objects: Objects, base_tree: str) -> KeptChain:
        chain = promote.without_reverts(objects, whole, base_tree)
        if unknown := sorted(left_out - set(chain.iterations)):
            kept = ", ".join(map(str, chain.iterations)) or "none"
            message = f"--without {unknown[0]}: it is not among the kept changes to promote: {kept}"
            raise GoalseekError(message, "see: goalseek promote")
        return promote.leave_out(objects, chain, left_out)

    def make_promotion(objects: Objects) -> Promotion:
        if head and head != base:
            head_tree = repository.tree_of(head)
            chain = chain_on(objects, head_tree)
            with contextlib.suppress(GoalseekError):  # HEAD has none of them where the others do not apply to it
                left = {number for one in promote.replay(objects, chain, head_tree) for number in one.iterations}
                kept = chain.iterations
                if taken := [number for number in kept if number not in left]:
                    which = f"of iterations {', '.join(map(str, taken))}"
                    if taken == kept[: len(taken)]:
                        which = f"up to iteration {taken[-1]}"
                    why = f"HEAD already has the kept changes {which}"
                    rest = options.with_manifest(f"goalseek promote --onto HEAD{_flags(options)}")
                    why = f"{why}; the rest: {rest}" if left else f"there is nothing to promote: {why}"
                    return Promotion(base, (), (), why)
        chain = chain_on(objects, tree)
        commits = promote.replay(objects, chain, tree)
        expected = structs.replace(chain, end=whole.end)
        unlike = promote.unmeasured_files(objects, expected, tree, commits[-1].tree, is_writable) if commits else ()
        squashed = promote.squash(objects, chain, commits, tree) if options.squash else commits
        return Promotion(base, tuple(squashed), unlike, chain=chain)

    return make_promotion


def _flags(options: Options) -> str:
    return "".join(f" --without {number}" for number in sorted(options.without))


def _carry_out(
    options: Options, manifest: ManifestFile, repository: Repository, project: Project | None, ablation: Ablation | None
) -> int:
    # First checks, then measurements in a project, then writing: an early end can be repeated.
    left_out = options.without.union(ablation.left_out if ablation else ())
    make_promotion = _promotion_maker(options, manifest, repository, left_out)
    patch = commit = result = None
    is_page = options.patch != "-" and not options.wants_json
    for line in (*(change.why for change in ablation.changes), ablation.result) if ablation else ():
        print(one_line(line)) if is_page else options.print_message(one_line(line))
    with as_user.temporary_objects(repository) as objects:
        promotion = make_promotion(objects)
        if options.patch is not None and promotion.promoted:
            last = as_user.commit_without_hooks(repository, objects, promotion.promoted, promotion.base)
            patch = as_user.format_mailbox(objects, promotion.base, last)
    if not promotion.promoted:
        options.print_message(promotion.why_none)
    with contextlib.ExitStack() as stack:
        if patch is not None and options.patch != "-":
            stack.enter_context(open_export(Path(options.patch), "--patch")).write(patch)
        if (options.branch or project) and promotion.promoted:
            promotion = make_promotion(repository.objects)
        if options.branch and promotion.promoted:
            commit = as_user.commit_all(repository, promotion.promoted, promotion.base)
        if project and promotion.promoted:
            base, tree = repository.tree_of(promotion.base), promotion.promoted[-1].tree
            result = settle_on_base(project, base, tree, options.print_message)
        if commit:
            as_user.make_branch(repository, options.branch, commit)
    at = ""
    if commit:
        at = f"branch {options.branch} is at {commit[:12]}; your checkout is untouched: git switch {options.branch}"
    if options.patch == "-":
        print_bytes(patch or b"")
        for line in filter(None, (str(result or ""), at)):
            options.print_message(line)
    elif options.wants_json:
        rows = [
            {"iterations": change.iterations, "message": change.message, "files": change.files}
            for change in promotion.promoted
        ]
        fields = {
            "base": promotion.base,
            "without": sorted(options.without),
            "branch": options.branch,
            "commit": commit,
            "commits": rows,
        }
        options.print_answer({**fields, "unlike_best": promotion.unlike, "measured": result, "ablation": ablation})
    elif promotion.promoted:
        for note in answer_notes_at_head(manifest, repository.location):
            options.print_message(str(note))
        _print_promotion(options, manifest, promotion, result, at)
    if options.ablate and not ablation and promotion.promoted:
        standing = load_standing(manifest)
        assert standing.best
        count = len(promotion.iterations)
        runs = count_runs(manifest.manifest.metric, standing, count, options.pairs or PAIRS)
        seconds = format_duration(runs * sum(standing.best.seconds.values()))
        what = f"the best without each of {pluralize(count, 'change')}, then without all that have no effect"
        options.print_message(f"--ablate measures {what}: {pluralize(runs, 'run')}, about {seconds}")
    return BAD_FINDING if result and result.is_worse else 0


def _print_promotion(
    options: Options, manifest: ManifestFile, promotion: Promotion, result: BaseComparison | None, at: str
) -> None:
    paint = options.painter()
    print(f"{pluralize(len(promotion.promoted), 'commit')} on {promotion.base[:12]}:")
    for change in promotion.promoted:
        title, *_, last = map(one_line, change.message.strip().split("\n"))
        print(f"  {', '.join(map(str, change.iterations)):>4}  {title}  {paint(last, 'green')}")
        for path in change.files:
            print(f"        {paint(path, 'grey')}")
    is_measured = result is not None or (options.ablate and options.onto is None)
    if promotion.unlike and not is_measured:
        unlike = ", ".join(promotion.unlike)
        why = f"the base changed {unlike} as well"
        if options.without:
            why = f"without that, {unlike} differ from the best commit"
        print(f"{why}, so this result was never measured; --measure measures it")
    elif not promotion.unlike:
        print("its writable files are those of the best commit, as it was measured")
    if note := note_of_changed_shares(manifest, promotion.iterations):
        print(f"{note}; --measure compares base and result afresh")
    if result:
        color: Color = "green" if result.compared.settled.is_sure else "magenta"
        print(paint(str(result), "red" if result.is_worse else color))
    if at:
        print(at)
    if options.patch:
        print(f"written to {options.patch}; to apply it: git am --keep --keep-cr {shlex.quote(options.patch)}")
    elif not at:
        flags = (
            f" --onto {options.onto}" * bool(options.onto)
            + _flags(options)
            + " --ablate" * options.ablate
            + " --squash" * options.squash
        )
        command = options.with_manifest("goalseek promote --branch NAME")
        print(f"this was a preview; to make the commits: {command}{flags}")
