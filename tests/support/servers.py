"""A PostgreSQL server of our own, for tests and for benchmarks/fuzz.py."""

from __future__ import annotations

import glob
import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def postgres() -> Iterator[str]:
    """The address of a server that lives as long as the block.

    Raises:
        LookupError: it cannot run here; the text says why.
    """
    if importlib.util.find_spec("psycopg") is None:
        raise LookupError("the extra 'postgres' is not installed")
    folders = [
        os.path.dirname(found)
        for found in (shutil.which("initdb"), shutil.which("pg_ctl"))
        if found
    ] + sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)
    tools = next((Path(f) for f in folders if (Path(f) / "initdb").exists()), None)
    if tools is None:
        raise LookupError("initdb and pg_ctl of PostgreSQL are not installed")
    become: list[str] = []
    folder = Path(tempfile.mkdtemp(prefix="marginalsyn-postgres-"))
    if os.geteuid() == 0:
        # The server refuses to run as root.
        names = {user.pw_name for user in pwd.getpwall()}
        name = next((n for n in ("postgres", "nobody") if n in names), None)
        if name is None or shutil.which("runuser") is None:
            shutil.rmtree(folder)
            raise LookupError("PostgreSQL does not run as root, and there is no user to run it as")
        shutil.chown(folder, name)
        become = ["runuser", "-u", name, "--"]

    def run(*command: str) -> None:
        subprocess.run(
            [*become, *command], check=True, cwd=folder, capture_output=True, text=True, timeout=120
        )

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    data = str(folder / "data")
    options = f"-c listen_addresses=127.0.0.1 -c fsync=off -k {folder} -p {port}"
    try:
        run(str(tools / "initdb"), "-D", data, "-U", "curator", "-A", "trust", "-E", "UTF8")
        log = str(folder / "log")
        run(str(tools / "pg_ctl"), "-D", data, "-w", "-l", log, "-o", options, "start")
        yield f"postgres://curator@127.0.0.1:{port}/postgres"
    finally:
        if (folder / "data" / "postmaster.pid").exists():
            run(str(tools / "pg_ctl"), "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)
