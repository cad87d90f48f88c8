"""The server of `rkhs play`: what it answers, and all that it refuses."""

import json
import os
import signal
import socket
import subprocess
import sys
from http.client import HTTPConnection
from threading import Thread

import pytest

from rkhs._command.play.scene import answer as answer_to
from rkhs._command.play.server import Server


@pytest.fixture(scope="module")
def server():
    with Server() as own:
        thread = Thread(target=own.serve_forever, daemon=True)
        thread.start()
        yield own
        own.shutdown()
        thread.join()


def example(name):
    return answer_to("example", {"name": name})


def ask(server, method, path, content=None, **headers):
    """The status, the headers and the content of an answer."""
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=600)
    body = None if content is None else content if isinstance(content, bytes | str) else json.dumps(content)
    given = {"Content-Type": "application/json"} if body is not None else {}
    connection.request(method, path, body, given | {name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    found = answer.status, dict(answer.getheaders()), answer.read()
    connection.close()
    return found


JSON = "Content-Type: application/json\r\n"


def path(server, rest=""):
    return f"/{server.token}/{rest}"


def test_the_page_and_its_parts(server):
    for rest, kind in (
        ("", "text/html"),
        ("app.js", "text/javascript"),
        ("board.js", "text/javascript"),
        ("server.js", "text/javascript"),
        ("style.css", "text/css"),
    ):
        status, headers, content = ask(server, "GET", path(server, rest))
        assert (status, headers["Content-Type"]) == (200, f"{kind}; charset=utf-8")
        assert headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert b"http://" not in content
        assert b"https://" not in content


def test_examples_scenes_and_code(server):
    status, _, content = ask(server, "POST", path(server, "example"), {"name": "moons"})
    assert (status, json.loads(content)) == (200, example("moons"))
    scene = example("moons")
    status, _, content = ask(server, "POST", path(server, "solve"), {**scene, "quick": True, "compare": True})
    found = json.loads(content)
    assert status == 200
    assert found["certificate"]["certified"]
    assert found["milliseconds"] > 0
    assert found["plain"]["certificate"]["functionals"] == 6
    status, _, content = ask(server, "POST", path(server, "code"), scene)
    assert status == 200
    compile(json.loads(content)["code"], "play", "exec")


def test_its_own_names_and_origin_are_not(server):
    for name in server.origins:
        assert ask(server, "GET", path(server), Host=name, Origin=f"http://{name}")[0] == 200


TOKENS = ("/", "//", "/index.html", "/x/", "/x/solve", "/{short}x/", "/{short}/../app.js", "/%00/")  # all wrong
ORIGINS = (
    "http://evil.example",
    "null",
    "http://127.0.0.1",
    "https://127.0.0.1:{port}",
    "http://127.0.0.1:{port}.evil",
)
HOSTS = (
    "evil.example",
    "127.0.0.1",
    "127.0.0.1:1",
    "evil.example:{port}",
    "0.0.0.0:{port}",
)  # leading to this computer
FILES = ("nothing", "../app.js", "..%2fserver.py", "static/app.js", "solve", "app.js/")
MALFORMED = {
    "empty": b"",
    "half": b"{",
    "no text": b"\xff\xfe",
    "NaN": b"NaN",
    "NaN within": b'{"points": [[NaN, 0, 0]]}',
    "deep": b"[" * 50_000,
    "null": b"null",
    "text": b"\"__import__('os')\"",
    "no list": b'{"points": "' + b"x" * 1000 + b'"}',
    "large": b"x" * (2**17 + 1),
}
ASKED = (("GET", None), ("POST", example("line")))
# name -> (method, path, content, headers, status of the answer)
REFUSED = {
    **{f"{method} {token}": (method, token, content, {}, 403) for token in TOKENS for method, content in ASKED},
    **{f"from {origin}": ("POST", "/{token}/solve", example("line"), {"Origin": origin}, 403) for origin in ORIGINS},
    **{f"to {host}": ("GET", "/{token}/", None, {"Host": host}, 403) for host in HOSTS},
    **{f"file {name}": ("GET", f"/{{token}}/{name}", None, {}, 404) for name in FILES},
    **{
        f"{rest}: {name}": ("POST", f"/{{token}}/{rest}", content, {}, 413 if name == "large" else 400)
        for name, content in MALFORMED.items()
        for rest in ("solve", "code")
    },
    **{method: (method, "/{token}/", None, {}, 501) for method in ("PUT", "DELETE", "OPTIONS", "HEAD")},
    "type": ("POST", "/{token}/solve", b"{}", {"Content-Type": "text/plain"}, 415),
    "no example": ("POST", "/{token}/example", {"name": "nothing"}, {}, 400),
    "a list of examples": ("POST", "/{token}/example", {"name": ["moons"]}, {}, 400),
    "no request": ("POST", "/{token}/nothing", {}, {}, 404),
}


@pytest.mark.every
@pytest.mark.parametrize(("method", "path", "content", "headers", "status"), REFUSED.values(), ids=REFUSED)
def test_a_request_is_refused(server, method, path, content, headers, status):
    names = {"token": server.token, "short": server.token[:-1], "port": server.server_port}
    given = {name: value.format(**names) for name, value in headers.items()}
    found, answered, answer = ask(server, method, path.format(**names), content, **given)
    assert found == status
    assert "Access-Control-Allow-Origin" not in answered
    assert not any(text in answer for text in (b"Traceback", server.token.encode()))
    if status in (400, 413):
        assert json.loads(answer)["error"].endswith(".")


def test_odd_lengths_are_refused(server):
    for length in ("-1", "x", "1e3", "9" * 30):
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=600) as raw:
            head = f"POST {path(server, 'solve')} HTTP/1.0\r\nHost: {server.origins[0]}\r\n{JSON}"
            raw.sendall(f"{head}Content-Length: {length}\r\n\r\n".encode())
            assert raw.recv(100).split()[1] in (b"411", b"413")


def test_who_says_nothing_is_not_waited_for(server):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server.RequestHandlerClass, "timeout", 0.3)
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=600) as raw:
            head = f"POST {path(server, 'solve')} HTTP/1.0\r\nHost: {server.origins[0]}\r\n{JSON}"
            raw.sendall(f"{head}Content-Length: 100\r\n\r\n{{".encode())
            assert b"408" in raw.recv(100)
    assert ask(server, "GET", path(server))[0] == 200


def test_only_this_computer_is_answered(server):
    assert server.server_address[0] == "127.0.0.1"


def start(*arguments):
    command = [sys.executable, "-m", "rkhs", "play", "--no-browser", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_ctrl_c_stops_it_and_its_port_is_free_again():
    process = start()
    address = process.stdout.readline().strip().removeprefix("page: ")
    port = int(address.split(":")[2].split("/")[0])
    connection = HTTPConnection("127.0.0.1", port, timeout=600)
    connection.request("GET", "/" + address.split("/", 3)[3])
    assert connection.getresponse().status == 200
    connection.close()
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=600)
    assert (process.returncode, err) == (130, "Stopped.\n")
    with Server(port) as again:
        taken = start("--port", str(again.server_port))
        _, err = taken.communicate(timeout=600)
        assert taken.returncode == 1
        assert f"Port {port} cannot be used" in err
        assert "take another with --port" in err
        assert "Traceback" not in err
