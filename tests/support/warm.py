"""Commands without the seconds of their imports: a process that has them forks one for each.

``with commands(folder) as path`` puts a ``marginalsyn`` into the folder, and a ``warm-python`` that
runs the text of a script. What they run is the whole command, in a process of its own, with the
arguments, the place, the environment and the three streams of its caller; only its modules are
there already. No network library is among them, since none survives a fork.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import json
import os
import pkgutil
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import marginalsyn

STREAMS = 3
SCRIPT = "warm-python"
CLIENT = """#!{python} -SE
import array, json, os, socket, sys
asked = json.dumps([sys.argv, os.getcwd(), dict(os.environ)]).encode()
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    streams = array.array("i", [0, 1, 2])
    server.sendmsg([b"%12d" % len(asked)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
    server.sendall(asked)
    sys.exit(int(server.makefile().read() or 1))
"""


@contextlib.contextmanager
def commands(folder: Path) -> Iterator[Path]:
    """A folder for the front of PATH, whose ``marginalsyn`` starts warm."""
    address = str(folder / "socket")
    for name in ("marginalsyn", SCRIPT):
        client = folder / name
        client.write_text(CLIENT.format(python=sys.executable, address=address), encoding="utf-8")
        client.chmod(0o755)
    server = subprocess.Popen([sys.executable, __file__, address], stdout=subprocess.PIPE)
    assert server.stdout is not None
    server.stdout.readline()  # it listens
    try:
        yield folder
    finally:
        server.kill()
        server.wait()


def serve(address: str) -> None:
    """Import all of ours and the engine, then run each command that is asked for in a fork."""
    import_module("ibis.backends.duckdb")
    for found in pkgutil.walk_packages(marginalsyn.__path__, "marginalsyn."):
        if ".networks" not in found.name:
            import_module(found.name)
    assert not {"jax", "tensorflow"} & set(sys.modules)
    from marginalsyn.cli.main import main

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            caller, _ = server.accept()
            if os.fork():
                caller.close()
                continue
            server.close()
            arguments, place, environment, streams = _receive(caller)
            child = os.fork()
            if child:
                code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                caller.sendall(b"%d" % (code if code >= 0 else 128 - code))
                os._exit(0)
            for stream, there in enumerate(streams):
                os.dup2(there, stream)
            os.chdir(place)
            os.environ.clear()
            os.environ.update(environment)
            name, *arguments = arguments
            sys.argv = ["marginalsyn", *arguments]
            code = 0
            try:
                if Path(name).name == SCRIPT:
                    run_script(arguments[0])
                else:
                    main()
            except SystemExit as leaving:
                code = leaving.code if isinstance(leaving.code, int) else int(bool(leaving.code))
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
            # Threads of a library, which the fork left behind, cannot be joined.
            os._exit(code)


def run_script(text: str) -> None:
    """Run a text as Python runs a script: an error is shown, and the exit code is 1."""
    try:
        exec(compile(text, "<script>", "exec"), {"__name__": "__main__"})
    except Exception:
        traceback.print_exc()
        sys.exit(1)


def _receive(caller: socket.socket) -> tuple[list[str], str, dict[str, str], list[int]]:
    streams = array.array("i")
    size, found, _, _ = caller.recvmsg(12, socket.CMSG_SPACE(STREAMS * streams.itemsize))
    streams.frombytes(found[0][2])
    text = caller.makefile("rb").read(int(size))
    arguments, place, environment = json.loads(text)
    return arguments, place, environment, list(streams)


if __name__ == "__main__":
    serve(sys.argv[1])
