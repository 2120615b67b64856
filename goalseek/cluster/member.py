"""The program of a scheduler or a worker that a driver starts, here or by ssh; it ends with its standard input.

The first line of the input is a JSON object: ``role``, ``name``, ``scheduler``, ``port``, ``ca``, ``cert`` and ``key``;
of a worker by ssh, ``contact`` too, its address for the scheduler.
It prints its address once it serves. Files are nobody's but its user's.
"""

import asyncio
import json
import logging
import os
import sys
import tempfile
import threading
import time
from typing import Any

import dask
from distributed import Scheduler, Worker
from distributed.security import Security

from goalseek.cluster.worker import PLUGIN

LOOPBACK = "127.0.0.1"
FORGOTTEN_SECONDS = 60.0  # without a driver; a dropped connection may keep standard input open for hours


def security_of(ca: str, cert: str, key: str) -> Security:
    """Of every role; each text is PEM, or a path."""
    roles = {
        f"tls_{role}_{kind}": text
        for role in ("client", "scheduler", "worker")
        for kind, text in (("cert", cert), ("key", key))
    }
    return Security(tls_ca_file=ca, require_encryption=True, **roles)


async def _serve(asked: dict[str, Any], ended: asyncio.Event, serves: threading.Event) -> None:
    security = security_of(asked["ca"], asked["cert"], asked["key"])
    own: dict[str, Any] = {"host": LOOPBACK, "port": asked["port"], "security": security}
    own |= {"dashboard": False, "dashboard_address": f"{LOOPBACK}:0"}
    if asked["role"] == "scheduler":
        async with Scheduler(**own) as scheduler:
            scheduler.http_server.stop()  # it answers without a certificate
            serves.set()
            print(scheduler.address, flush=True)
            await ended.wait()
        return
    own |= {"contact_address": asked.get("contact"), "death_timeout": 30}
    worker = Worker(asked["scheduler"], name=asked["name"], nthreads=1, memory_limit=0, **own)
    async with worker:
        worker.http_server.stop()
        serves.set()
        print(worker.address, flush=True)
        began = time.monotonic()
        while not ended.is_set() and worker.status.name == "running":
            plugin: Any = worker.plugins.get(PLUGIN)
            if time.monotonic() - (plugin.renewed_at if plugin else began) > FORGOTTEN_SECONDS:
                return
            await asyncio.sleep(0.2)


def main() -> None:
    os.umask(0o077)
    # No page, no JSON by HTTP for a moment either: nothing answers but TLS with a certificate.
    dask.config.set({"distributed.scheduler.http.routes": [], "distributed.worker.http.routes": []})
    logging.disable()  # nobody reads the pipe before the end: it would fill, and stop this process
    asked = json.loads(sys.stdin.readline())

    async def run() -> None:
        ended, serves, loop = asyncio.Event(), threading.Event(), asyncio.get_running_loop()

        def await_end() -> None:
            sys.stdin.read()
            if not serves.is_set():
                os._exit(0)  # a worker looks for its scheduler half a minute long
            loop.call_soon_threadsafe(ended.set)

        threading.Thread(target=await_end, daemon=True).start()
        await _serve(asked, ended, serves)

    # Dask imports from its folder before all others: nobody else may own that, nor the one above.
    with tempfile.TemporaryDirectory(prefix="goalseek-") as folder, dask.config.set({"temporary-directory": folder}):
        asyncio.run(run())
    os._exit(0)  # a task may be at work: its programs have ended with the plugin


if __name__ == "__main__":
    main()
