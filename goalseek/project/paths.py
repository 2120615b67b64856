"""The folder of a climb, and the records that only git has.

Manifests of one name in two folders of a repository would share branch and records, so one folder has the name.
"""

import contextlib
import json
import os
from pathlib import Path

from goalseek.disk import write_atomic
from goalseek.errors import UNFIT, USAGE, GitFailed, GoalseekError
from goalseek.git.command import git
from goalseek.git.location import Location, locate
from goalseek.git.paths import folder_prefix
from goalseek.ledger.results_file import History, find_own_folder
from goalseek.locks import lock_holder
from goalseek.manifest.loading import ManifestFile, base_of, load
from goalseek.workspace.shared_folders import SHARES_CHANGED

_FILE = "folder"
TWO_NAMES = "give this manifest another project.name, or climb with the other manifest"


def refuse_name_of_other_folder(name: str, folder: Path) -> None:
    location = locate(folder)
    if manifest := _manifest_of_other_folder(name, folder_prefix(location.top, folder), location):
        raise GoalseekError(f"{manifest} exists already, with the name {name!r}", TWO_NAMES, USAGE)


def other_folder_message(loaded: ManifestFile, location: Location) -> str:
    """A sentence naming another folder that has this climb; "" if it is this folder's, nobody's, or was moved here."""
    name, prefix = loaded.manifest.project.name, folder_prefix(location.top, base_of(loaded, location.top))
    if manifest := _manifest_of_other_folder(name, prefix, location):
        return f"the climb {name!r} belongs to the manifest in {manifest.parent}, not to {loaded.path}"
    return ""


def _manifest_of_other_folder(name: str, prefix: str, location: Location) -> Path | None:
    try:
        folder = os.fsdecode((location.own(name) / _FILE).read_bytes())
    except OSError:
        return None
    for path in (location.top / folder).glob("goalseek*.toml") if folder != prefix else ():
        import tomllib

        with contextlib.suppress(OSError, ValueError, AttributeError, RecursionError):
            if tomllib.loads(path.read_text(encoding="utf-8")).get("project", {}).get("name") == name:
                return path
    return None


def manifest_of_running_climb(loaded: ManifestFile, location: Location | None = None) -> ManifestFile:
    """The manifest of the climb at work, perhaps in another worktree; ``loaded`` if none is at work.

    Raises GoalseekError, naming the folder, if that manifest cannot be read from here.
    """
    own = location.own(loaded.manifest.project.name) if location else find_own_folder(loaded)
    holder = lock_holder(own) if own else None
    if holder is None or not holder.is_climbing or holder.manifest in ("", str(loaded.path.resolve())):
        return loaded
    try:
        return load(Path(holder.manifest))
    except (GoalseekError, OSError) as error:
        message = f"the climb is at work in {Path(holder.manifest).parent}: {holder}; {error}"
        raise GoalseekError(message, "run this command there", UNFIT) from None


def save_folder(loaded: ManifestFile, location: Location) -> None:
    """Only for the holder of the lock."""
    path = location.own(loaded.manifest.project.name) / _FILE
    prefix = os.fsencode(folder_prefix(location.top, base_of(loaded, location.top)))
    if not path.exists() or path.read_bytes() != prefix:
        write_atomic(path, prefix)


def fetch_hint(loaded: ManifestFile, location: Location | None = None) -> str:
    """A hint for records that only git has, fetched for example, or that the climb is another folder's; "" for none."""
    name = loaded.manifest.project.name
    ref = f"refs/goalseek/{name}/ledger"
    try:
        location = location or locate(loaded.folder / loaded.manifest.project.repo)
        if message := other_folder_message(loaded, location):
            return message
        newest = git("cat-file", "commit", ref, git_dir=location.git_dir)
        newest_number = int(json.loads(newest.rstrip(b"\n").rpartition(b"\n")[2])["seq"])
        last_line = next(History(loaded.results).backward(), None)
        last_number = int(json.loads(last_line.text)["seq"]) if last_line else -1
        if last_number < 0:  # measurements that init made before the first baseline are no loss
            git("cat-file", "-e", f"{ref}:ruler.json", git_dir=location.git_dir)
    except (GitFailed, GoalseekError, OSError, ValueError, LookupError, TypeError, RecursionError):
        return ""  # a damaged record is for audit
    if newest_number <= last_number or lock_holder(location.own(name)):  # the holder may be writing them
        return ""
    count = newest_number - last_number
    message = "a newer record is" if count == 1 else f"{count} newer records are"
    message = "the records are" if last_number < 0 else message
    return f"{message} in git, as {ref}: goalseek audit --rebuild writes {'it' if count == 1 else 'them'} here"


def note_of_changed_shares(loaded: ManifestFile, iterations: set[int]) -> str:
    """A sentence naming those of the iterations that were measured after shared files changed; "" for none."""
    records = History(loaded.results).newest_iterations()
    noted = {record.iteration for record in records if any(note.startswith(SHARES_CHANGED) for note in record.notes)}
    names = ", ".join(f"iteration {number}" for number in sorted(iterations & noted))
    return f"kept while {SHARES_CHANGED}: {names}" if names else ""
