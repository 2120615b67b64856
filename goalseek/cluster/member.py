"""The program of a scheduler or a worker that a driver starts, here or by ssh; it ends with its standard input.

Its first line is a JSON object: ``name``, ``port``, ``ca``, ``cert``, ``key``; for a worker ``scheduler``, an address,
and by ssh ``contact``, its own address for that. Files are nobody's but its user's.
"""

import asyncio
import json
import logging
import os
import select
import sys
import tempfile
import time
from typing import Any

import dask
from distributed import Scheduler, Worker
from distributed.security import Security

from goalseek.cluster.worker import PLUGIN

LOOPBACK = "127.0.0.1"
_LOOK_SECONDS = 0.2
FORGOTTEN_SECONDS = 60.0  # without a driver; a dropped connection may keep standard input open for hours


def security_of(ca: str, cert: str, key: str) -> Security:
    """Of every role; each text is PEM, or a path."""
    roles = {
        f"tls_{role}_{kind}": text
        for role in ("client", "scheduler", "worker")
        for kind, text in (("cert", cert), ("key", key))
    }
    return Security(tls_ca_file=ca, require_encryption=True, **roles)


async def _serve(asked: dict[str, Any]) -> None:
    own: dict[str, Any] = {"host": LOOPBACK, "port": asked["port"], "dashboard": False}
    own |= {"dashboard_address": f"{LOOPBACK}:0", "security": security_of(asked["ca"], asked["cert"], asked["key"])}
    if scheduler := asked.get("scheduler"):
        own |= {"name": asked["name"], "nthreads": 1, "memory_limit": 0, "death_timeout": 30}
        server = Worker(scheduler, contact_address=asked.get("contact"), **own)
    else:
        server = Scheduler(**own)
    began, start = time.monotonic(), asyncio.ensure_future(server)
    while not start.done():
        if _has_ended():
            return  # a worker looks for its scheduler half a minute long
        await asyncio.wait([start], timeout=_LOOK_SECONDS)
    await start
    server.http_server.stop()  # it answers without a certificate
    while server.status.name == "running" and not _has_ended():
        plugin: Any = server.plugins.get(PLUGIN)
        if scheduler and time.monotonic() - (plugin.renewed_at if plugin else began) > FORGOTTEN_SECONDS:
            break
        await asyncio.sleep(_LOOK_SECONDS)
    await server.close()


def _has_ended() -> bool:
    """Whether the end of standard input is there to be read: nothing else comes."""
    return bool(select.select([sys.stdin], [], [], 0)[0])


def main() -> None:
    os.umask(0o077)
    # No page, no JSON by HTTP for a moment either: nothing answers but TLS with a certificate.
    dask.config.set({"distributed.scheduler.http.routes": [], "distributed.worker.http.routes": []})
    logging.disable()  # nobody reads the pipe before the end: it would fill, and stop this process
    asked = json.loads(sys.stdin.readline())
    # Dask imports from its folder before all others: nobody else may own that, nor the one above.
    with tempfile.TemporaryDirectory(prefix="goalseek-") as folder, dask.config.set({"temporary-directory": folder}):
        asyncio.run(_serve(asked))
    os._exit(0)  # a task may be at work: its programs have ended with the plugin


if __name__ == "__main__":
    main()
