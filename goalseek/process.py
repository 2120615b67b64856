"""Starting trusted programs, git included; handling signals; finding and ending programs by a mark they carry.

No other module starts a trusted program; untrusted ones are started by ``sandbox.reaper``.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from types import FrameType

from goalseek.errors import Interrupted

Helper = subprocess.Popen[bytes]
CompletedProgram = subprocess.CompletedProcess[bytes]
_LOOK_SECONDS = 0.2
_mark: ContextVar[str] = ContextVar("mark", default="")


def inherited_variables(names: Iterable[str]) -> dict[str, str]:
    return {name: value for name in names if (value := os.environ.get(name)) is not None}


def environment_without(prefix: str, but: tuple[str, ...] = ()) -> dict[str, str]:
    """Our environment without variables that begin with the prefix, ``but`` those that begin with one of these."""
    items = os.environ.items()
    return {name: value for name, value in items if not name.startswith(prefix) or name.startswith(but)}


@contextlib.contextmanager
def marking_programs(mark: str) -> Iterator[None]:
    """The next holder of the project can wait for the trusted programs started in this block."""
    outer_mark = _mark.get()
    _mark.set(mark)
    try:
        yield
    finally:
        _mark.set(outer_mark)  # not reset(): a generator may be closed in another context than it began in


def run(
    arguments: Sequence[str | os.PathLike[str]],
    environment: Mapping[str, str],
    stdin: bytes = b"",
    folder: Path | None = None,
) -> CompletedProgram:
    """A short, trusted program, to its end. Raises FileNotFoundError if there is no such program."""
    return subprocess.run(
        list(arguments), input=stdin, capture_output=True, env=_with_mark(environment), cwd=folder, check=False
    )


def run_in_terminal(arguments: Sequence[str], environment: Mapping[str, str], folder: Path) -> int:
    """Returns the exit code, negative for a signal."""
    return subprocess.run(list(arguments), env=dict(environment), cwd=folder, check=False).returncode


def start_batch(arguments: Sequence[str], environment: Mapping[str, str], folder: Path | None = None) -> Helper:
    """A trusted program that answers line by line until its input is closed."""
    return subprocess.Popen(
        list(arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_with_mark(environment),
        cwd=folder,
        start_new_session=True,
    )


def run_while(
    is_wanted: Callable[[], bool], arguments: Sequence[str], environment: Mapping[str, str], folder: Path
) -> CompletedProgram:
    """A trusted program without input; it is ended once it ``is_wanted`` no more, which is asked now and then."""
    with start_batch(arguments, environment, folder) as program:
        while True:
            try:
                stdout, stderr = program.communicate(timeout=_LOOK_SECONDS)
                return CompletedProgram(program.args, program.returncode, stdout, stderr)
            except subprocess.TimeoutExpired:
                if not is_wanted():
                    program.terminate()


def end(program: Helper, seconds: float) -> int:
    """Wait for its end, and kill it if that takes longer; returns its exit code."""
    try:
        return program.wait(seconds)
    except subprocess.TimeoutExpired:
        program.kill()
        return program.wait()


def start_helper(module: str, inherited: Sequence[int], on_terminal: bool = False) -> Helper:
    """Start ``main`` of a module of ours with the first descriptor; it inherits these descriptors and nothing else.

    It imports only the interpreter's code and ours. Its session is its own, unless it is ``on_terminal``.
    """
    code = f"import sys; sys.path.append(sys.argv[1]); from {module} import main; main(int(sys.argv[2]))"
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code, str(Path(__file__).parent.parent), str(inherited[0])],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=inherited_variables(("HOME", "LD_LIBRARY_PATH")),
        cwd="/",
        pass_fds=inherited,
        start_new_session=not on_terminal,
    )


def own_command(arguments: Sequence[str]) -> list[str]:
    """Goalseek itself; it imports nothing from the current folder."""
    code = "import sys; sys.path.append(sys.argv.pop(1)); from goalseek.__main__ import main; main()"
    return [sys.executable, "-P", "-c", code, str(Path(__file__).parent.parent), *arguments]


def detach(arguments: Sequence[str], log: Path) -> Helper:
    """Goalseek itself, in a session without this terminal, with output appended to ``log``."""
    with log.open("ab") as file:
        return subprocess.Popen(
            own_command(arguments),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _with_mark(environment: Mapping[str, str]) -> dict[str, str]:
    mark = _mark.get()
    return {**environment, MARK_VARIABLE: mark} if mark else dict(environment)


ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SAME_SIGNAL_SECONDS = 10.0
_last_signal_at: list[float] = []


def install_signal_handlers() -> None:
    """From now on an ending signal raises KeyboardInterrupt (for ^C) or Interrupted (for the others).

    Signals within ten seconds after it are ignored, so that they do not interrupt the cleaning up: people press ^C
    twice, and both system and shell signal a closed terminal. Those ignored at first (``nohup``) stay so.
    """

    def raise_once(number: int, frame: FrameType | None) -> None:
        if is_ending():
            return
        _last_signal_at[:] = [time.monotonic()]
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise Interrupted(number)

    _last_signal_at.clear()
    for number in ENDING_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, raise_once)


def is_ending() -> bool:
    """Whether an ending signal came within the last ten seconds."""
    return bool(_last_signal_at) and time.monotonic() - _last_signal_at[0] < SAME_SIGNAL_SECONDS


def wait_for_line() -> None:
    """A signal ends it, also one just before the wait: ``input()`` would go on, its system call not interrupted."""
    if not sys.stdin.isatty() or threading.current_thread() is not threading.main_thread():
        return
    heard, signalled = os.pipe()
    os.set_blocking(signalled, False)
    before = signal.set_wakeup_fd(signalled, warn_on_full_buffer=False)
    try:
        while sys.stdin not in select.select([sys.stdin, heard], [], [])[0]:
            os.read(heard, 64)
    finally:
        signal.set_wakeup_fd(before)
        os.close(heard)
        os.close(signalled)


@contextlib.contextmanager
def deferring_signals() -> Iterator[None]:
    """Until the block ends, those handled in Python; others take effect at once."""
    numbers: list[int] = []
    is_main = threading.current_thread() is threading.main_thread()  # no other thread may set a handler
    handlers = {number: signal.getsignal(number) for number in ENDING_SIGNALS if is_main}
    python_handlers = {number: handler for number, handler in handlers.items() if callable(handler)}
    for number in python_handlers:
        signal.signal(number, lambda signal_number, frame: numbers.append(signal_number))
    try:
        yield
    finally:
        for number, handler in python_handlers.items():
            signal.signal(number, handler)
        for signal_number in numbers:
            python_handlers[signal.Signals(signal_number)](signal_number, None)


@contextlib.contextmanager
def ignoring_terminal_signals() -> Iterator[None]:
    r"""In this block ^C and ^\ are meant for the program that has the terminal."""
    numbers = [signal.SIGINT, signal.SIGQUIT] if threading.current_thread() is threading.main_thread() else []
    before = {number: signal.signal(number, lambda *_: None) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


MARK_VARIABLE = "GOALSEEK_PROCESS"


def kill_marked(token: str, grace: float) -> int:
    """SIGTERM, then SIGKILL after ``grace`` seconds, until none is alive; returns their number. Without /proc, 0."""
    pids = survivors = marked_pids(token)
    _send(pids, signal.SIGTERM)
    wait_for_marked(token, grace if pids else 0.0)
    while survivors and (survivors := marked_pids(token)):
        _send(survivors, signal.SIGKILL)
        time.sleep(0.005)
    return len(pids)


def wait_for_marked(token: str, seconds: float) -> None:
    """Until none of them is alive, at most so many seconds."""
    deadline, pause = time.monotonic() + seconds, 0.001
    while time.monotonic() < deadline and marked_pids(token):
        time.sleep(pause)
        pause = min(pause * 2, 0.05)


def is_alive(pid: int) -> bool:
    """Whether a process with that number exists, of whichever user."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def marked_pids(token: str) -> list[int]:
    """Of programs that are alive; a zombie is not."""
    try:
        names = os.listdir("/proc")
    except FileNotFoundError:
        return []
    mark, own = f"\0{MARK_VARIABLE}={token}".encode(), os.getpid()
    pids: list[int] = []
    for name in names:
        if not name.isdigit() or int(name) == own:
            continue
        with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:  # noqa: PTH123 - hundreds
            # That of a zombie is empty.
            if mark in b"\0" + file.read():
                pids.append(int(name))
    return pids


def _send(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def seconds_with_sleep() -> float:
    """A monotonic clock, with the time that the machine slept if the system counts it."""
    boot_time = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot_time is None else time.clock_gettime(boot_time)
