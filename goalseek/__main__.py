"""The entry point of ``goalseek`` and of ``python -m goalseek``."""

import signal
import sys


def main() -> None:
    try:
        from goalseek.cli.main import run
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    code = run(sys.argv[1:])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done: ^C during shutdown would only print a traceback
    sys.exit(code)


if __name__ == "__main__":
    main()
