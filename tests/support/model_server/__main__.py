"""By hand: ``python -m model_server PATH=TEXT ...`` prints its address, plays the edit for every question."""

import json
import sys
import time

from model_server.moves import Edit
from model_server.server import ModelServer

files = dict(word.split("=", 1) for word in sys.argv[1:])
with ModelServer(otherwise=Edit(files, text="edited, {nonce}")) as server:
    print(server.url, flush=True)
    told = 0
    while True:
        time.sleep(0.2)
        for seen in server.seen[told:]:
            print(seen.done, seen.path, seen.asked.key, seen.asked.model, json.dumps(seen.asked.tools), flush=True)
            print("  asked:", repr(seen.asked.prompt[-200:]), "results:", seen.asked.results, flush=True)
            told += 1
        for path in server.unknown:
            print("unknown:", path, flush=True)
        server.unknown.clear()
