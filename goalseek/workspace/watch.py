"""The names in a tree's folders that programs used since the last look, as Linux reports them (inotify)."""

import os
import struct
from typing import Any

_HEAD = struct.Struct("iIII")
_PLACED = 0x3C0  # a name is moved, made or removed
# A file is opened before it is read, written or mapped. Its size and mode change by its path alone, as does a folder.
_USED = _PLACED | 0x2 | 0x4 | 0x20 | 0xC00 | 0x0100_0000
_OPEN_FOLDER = 0x4000_0020


class Watch:
    """Does not see a change through another name (a hard link) outside its folders."""

    def __init__(self) -> None:
        import ctypes

        self._kernel: Any = ctypes.CDLL(None)
        self._folders: dict[int, str] = {}
        self._has_reported = False
        is_linux = hasattr(self._kernel, "inotify_init1")
        self._descriptor: int = self._kernel.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC) if is_linux else -1

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def add(self, folder: str, descriptor: int) -> bool:
        """Watch an open folder, "" or "a/b/", without its subfolders. False if the system watches no more."""
        if self._descriptor < 0:
            return False
        number: int = self._kernel.inotify_add_watch(self._descriptor, b"/proc/self/fd/%d" % descriptor, _USED)
        self._folders[number] = folder
        return number >= 0

    def read(self) -> dict[str, bool] | None:
        """Paths, and whether a name was moved, made or removed there; None if any change is possible."""
        used: dict[str, bool] = {}
        is_known = True
        while True:
            try:
                events = os.read(self._descriptor, 8192)
            except OSError as error:
                # A system may take the call and never report: a walk's own opened folders are the proof.
                return used if is_known and self._has_reported and isinstance(error, BlockingIOError) else None
            self._has_reported = True
            while events:
                number, kinds, _, size = _HEAD.unpack_from(events)
                name, events = events[_HEAD.size : _HEAD.size + size].rstrip(b"\0"), events[_HEAD.size + size :]
                if kinds & _OPEN_FOLDER == _OPEN_FOLDER:
                    continue
                if name:
                    path = self._folders[number] + os.fsdecode(name)
                    used[path] = used.get(path, False) or bool(kinds & _PLACED)
                else:  # too many events, or a folder itself was changed, moved or removed
                    is_known = False
