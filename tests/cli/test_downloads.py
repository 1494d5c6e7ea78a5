"""A table behind a web address: fetched whole into the current folder, or not at all."""

from __future__ import annotations

import functools
import http.server
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from marginalsyn.cli.screen import Notes
from marginalsyn.cli.start import brought
from marginalsyn.errors import DataError, UsageError

TABLE = "age,ill\n" + "".join(f"{20 + i % 50},{'yes' if i % 3 else 'no'}\n" for i in range(300))


class Pages(http.server.SimpleHTTPRequestHandler):
    """Files of a folder, a page, a table without a suffix, and one that breaks off."""

    def do_GET(self) -> None:
        said = {
            "/page.csv": ("text/html", b"<html>", 6),
            "/export": ("text/csv", TABLE.encode(), len(TABLE)),
            "/cut.csv": ("text/csv", TABLE.encode()[:100], len(TABLE)),
        }
        if self.path.partition("?")[0] not in said:
            return super().do_GET()
        kind, body, length = said[self.path.partition("?")[0]]
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    place = tmp_path_factory.mktemp("served")
    (place / "people.csv").write_text(TABLE)
    handler = functools.partial(Pages, directory=str(place))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{found.server_port}"
        found.shutdown()


def test_the_file_is_here_for_its_owner_alone(server: str, folder: Path) -> None:
    assert brought(f"{server}/people.csv?token=s3cret", Notes(True)) == "people.csv"
    assert (folder / "people.csv").read_text() == TABLE
    assert stat.S_IMODE((folder / "people.csv").stat().st_mode) == 0o600
    with pytest.raises(UsageError, match="start from it"):
        brought(f"{server}/people.csv", Notes(True))
    assert brought(f"{server}/export", Notes(True)) == "export.csv"


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("/absent.csv", "must be there"),
        ("/page.csv", "a web page"),
        ("/cut.csv", "cut short"),
        ("/", "must name a file"),
    ],
)
def test_what_cannot_be_had_leaves_nothing(
    server: str, folder: Path, place: str, words: str
) -> None:
    with pytest.raises((DataError, UsageError), match=words) as found:
        brought(f"{server}{place}?token=s3cret", Notes(True))
    assert "s3cret" not in str(found.value)
    assert not [path for path in folder.iterdir() if path.name.startswith(place[1:4] or "?")]
