"""The ``goalseek`` of a program that is driven: it asks the goalseek outside through a socket, and prints the answer.

Its source is put into the sandbox as a script, so it imports nothing of goalseek.
"""

import json
import os
import socket
import sys


def main() -> int:
    folder, name = os.path.split(os.environ["GOALSEEK_SOCKET"])
    os.chdir(folder)  # the name of a socket may have 107 bytes
    with socket.socket(socket.AF_UNIX) as channel:
        try:
            channel.connect(name)
            channel.sendall(json.dumps([os.environ["GOALSEEK_TOKEN"], *(sys.argv[1:] or ["help"])]).encode())
            channel.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: channel.recv(65536), b""))
        except OSError as error:
            print(f"goalseek: the goalseek outside does not answer: {error.strerror}", file=sys.stderr)
            return 70
    code, printed, said = json.loads(answer or b'[70, "", "goalseek: the goalseek outside has ended\\n"]')
    sys.stdout.write(printed)
    sys.stderr.write(said)
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
