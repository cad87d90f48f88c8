"""The server of the page: on this machine only, and only for who knows the token in its address.

Any page in a browser can send requests to 127.0.0.1.  So a request needs the token, a Host that is this server, and no
Origin but this server; what it sends is JSON of limited size.  Nothing it sends is executed or written anywhere.
"""

from __future__ import annotations

import json
import secrets
from hmac import compare_digest
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from threading import Lock
from typing import Any

from rkhs.play.code import python_code
from rkhs.play.examples import EXAMPLES, example
from rkhs.play.scene import Scene, SceneError
from rkhs.play.solving import solved

HOST = "127.0.0.1"
LARGEST = 128 * 1024  # bytes of a request
SECONDS = 10  # to wait for what a request announces
STATIC = {
    "": ("index.html", "text/html"),
    "app.js": ("app.js", "text/javascript"),
    "board.js": ("board.js", "text/javascript"),
    "style.css": ("style.css", "text/css"),
}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Server(ThreadingHTTPServer):
    """Serves the page at `address`; 0 takes any port that is free."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__((HOST, port), Handler)
        self.token = secrets.token_urlsafe(16)
        self.solving = Lock()  # one problem at a time

    @property
    def origins(self) -> tuple[str, ...]:
        """The names under which a browser may know this server."""
        return tuple(f"{name}:{self.server_port}" for name in (HOST, "localhost"))

    @property
    def address(self) -> str:
        """What to open in a browser."""
        return f"http://{HOST}:{self.server_port}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away is no error."""


class Refused(Exception):
    """A request that is not answered."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Server
    timeout = SECONDS
    server_version, sys_version = "rkhs", ""

    def do_GET(self) -> None:
        """A file of the page."""
        self._answer(self._file)

    def do_POST(self) -> None:
        """A scene to solve, its code, or an example."""
        self._answer(self._work)

    def _answer(self, work: Any) -> None:
        """Check who asks, then work; every answer has the same headers."""
        try:
            kind, content = work(self._checked_path())
            status = HTTPStatus.OK
        except Refused as refused:
            kind, content, status = "application/json", _json({"error": str(refused)}), refused.status
        except SceneError as error:
            kind, content, status = "application/json", _json({"error": str(error)}), HTTPStatus.BAD_REQUEST
        except (ValueError, ArithmeticError, RuntimeError) as error:  # what a solver says of odd points
            kind, content, status = "application/json", _json({"error": str(error)}), HTTPStatus.UNPROCESSABLE_ENTITY
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        if status != HTTPStatus.OK:
            self.close_connection = True
        self.end_headers()
        self.wfile.write(content)

    def _checked_path(self) -> str:
        """The path behind the token, if the request may be answered."""
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
        if path not in STATIC:
            raise Refused(HTTPStatus.NOT_FOUND, "There is no such page.")
        name, kind = STATIC[path]
        return kind, files("rkhs.play").joinpath("static", name).read_bytes()

    def _work(self, path: str) -> tuple[str, bytes]:
        given = self._body()
        if path == "solve":
            return "application/json", _json(self._solved(given))
        if path == "code":
            return "application/json", _json({"code": python_code(Scene.of(given))})
        if path == "example":
            name = given.get("name") if isinstance(given, dict) else None
            if not isinstance(name, str) or name not in EXAMPLES:
                raise Refused(HTTPStatus.BAD_REQUEST, f"The examples are {', '.join(EXAMPLES)}.")
            return "application/json", _json(example(name))
        raise Refused(HTTPStatus.NOT_FOUND, "There is no such page.")

    def _solved(self, given: Any) -> dict[str, Any]:
        scene = Scene.of(given)
        with self.server.solving:
            found = solved(scene, given.get("quick") is True)
            if given.get("compare") is True:
                found["plain"] = solved(scene.without_knowledge(), given.get("quick") is True)
        return found

    def _body(self) -> Any:
        """The JSON that was sent."""
        if self.headers.get("Content-Type", "").partition(";")[0].strip() != "application/json":
            raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Send application/json.")
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()) or self.headers.get("Transfer-Encoding"):
            raise Refused(HTTPStatus.LENGTH_REQUIRED, "Say how long the content is.")
        if len(length) > 9 or int(length) > LARGEST:
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"Send at most {LARGEST} bytes.")
        try:
            return json.loads(self.rfile.read(int(length)), parse_constant=_no_constant)
        except (ValueError, RecursionError):
            raise Refused(HTTPStatus.BAD_REQUEST, "What was sent is no JSON.") from None
        except OSError:
            raise Refused(HTTPStatus.REQUEST_TIMEOUT, "What was announced did not come.") from None

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing: the token would be in it."""


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _json(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False).encode()
