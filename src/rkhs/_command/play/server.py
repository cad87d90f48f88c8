"""Serve the page on this computer only, and only to browsers that know the token in its address.

Any page in a browser can send requests to 127.0.0.1.  So a request needs the token, a Host that is this server, and no
Origin but this server; what it sends is JSON of limited size.  Nothing it sends is executed or written anywhere.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from hmac import compare_digest
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from threading import Lock
from typing import Any

from rkhs._command.play.scene import FAILURES, SceneError, answer

HOST = "127.0.0.1"
LARGEST = 128 * 1024  # bytes of a request
STATIC = ("index.html", "app.js", "board.js", "server.js", "style.css")
REQUESTS = ("solve", "code", "example")
TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css"}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Server(ThreadingHTTPServer):
    """Serve the page at `address`; port 0 takes a free one."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__((HOST, port), Handler)
        self.token = secrets.token_urlsafe(16)
        self.solving = Lock()  # one problem at a time

    @property
    def origins(self) -> tuple[str, ...]:
        """The host names by which a browser may address this server."""
        return tuple(f"{name}:{self.server_port}" for name in (HOST, "localhost"))

    @property
    def address(self) -> str:
        """The address to open in a browser."""
        return f"http://{HOST}:{self.server_port}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore browsers that go away."""


class Refused(Exception):
    """A request that is refused, with the status of the answer."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Server
    timeout = 10  # seconds to wait for what a request announces
    server_version, sys_version = "rkhs", ""

    def do_GET(self) -> None:
        """Send a file of the page."""
        self._answer(self._file)

    def do_POST(self) -> None:
        """Send a scene that was solved, its code, or an example."""
        self._answer(self._work)

    def _answer(self, work: Callable[[str], tuple[str, bytes]]) -> None:
        """Check who asks, then work; every answer has the same headers."""
        status, error = HTTPStatus.OK, ""
        try:
            kind, content = work(self._checked_path())
        except Refused as refused:
            status, error = refused.status, str(refused)
        except SceneError as wrong:
            status, error = HTTPStatus.BAD_REQUEST, str(wrong)
        except FAILURES as failed:
            status, error = HTTPStatus.UNPROCESSABLE_ENTITY, str(failed)
        if status != HTTPStatus.OK:
            kind, content = _json({"error": error})
            self.close_connection = True
        self.send_response(status)
        lengths = {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(content))}
        for name, value in (HEADERS | lengths).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def _checked_path(self) -> str:
        """Return the path behind the token, if the request may be answered."""
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or hosts[0] not in self.server.origins:
            raise Refused(HTTPStatus.FORBIDDEN, "This server answers to its own name only.")
        origin = self.headers.get("Origin")
        if origin is not None and origin not in [f"http://{name}" for name in self.server.origins]:
            raise Refused(HTTPStatus.FORBIDDEN, "This server answers to its own page only.")
        token, _, rest = self.path.lstrip("/").partition("/")
        if not compare_digest(token.encode(), self.server.token.encode()):
            raise Refused(HTTPStatus.FORBIDDEN, "The address needs its token: take it from where rkhs play runs.")
        return rest

    def _file(self, path: str) -> tuple[str, bytes]:
        name = path or "index.html"
        if name not in STATIC:
            raise Refused(HTTPStatus.NOT_FOUND, "There is no such page.")
        return TYPES[name.rpartition(".")[2]], files("rkhs._command.play").joinpath("static", name).read_bytes()

    def _work(self, path: str) -> tuple[str, bytes]:
        given = self._body()
        if path not in REQUESTS:
            raise Refused(HTTPStatus.NOT_FOUND, "There is no such page.")
        with self.server.solving:
            return _json(answer(path, given))

    def _body(self) -> Any:
        """Return the JSON that was sent."""
        if self.headers.get("Content-Type", "").partition(";")[0].strip() != "application/json":
            raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Send application/json.")
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()) or self.headers.get("Transfer-Encoding"):
            raise Refused(HTTPStatus.LENGTH_REQUIRED, "Say how long the content is.")
        if len(length) > 9 or int(length) > LARGEST:
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"Send at most {LARGEST} bytes.")
        try:
            return json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            raise Refused(HTTPStatus.BAD_REQUEST, "What was sent is no JSON.") from None
        except OSError:
            raise Refused(HTTPStatus.REQUEST_TIMEOUT, "What was announced did not come.") from None

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing: the token would be in it."""


def _json(value: Any) -> tuple[str, bytes]:
    return "application/json", json.dumps(value, allow_nan=False).encode()
