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

from rkhs._command.play.scene import example
from rkhs._command.play.server import LARGEST, Handler, Server


@pytest.fixture(scope="module")
def server():
    with Server() as own:
        thread = Thread(target=own.serve_forever, daemon=True)
        thread.start()
        yield own
        own.shutdown()
        thread.join()


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


@pytest.mark.every
@pytest.mark.parametrize("wrong", ["", "/", "/index.html", "/x/", "/x/solve", "/{}x/", "/{}/../app.js", "/%00/"])
def test_a_token_is_needed(server, wrong):
    token = server.token[:-1]
    for method, content in (("GET", None), ("POST", example("line"))):
        status, _, answer = ask(server, method, wrong.format(token) or "/", content)
        assert status == 403
        assert server.token.encode() not in answer


@pytest.mark.every
@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1", "https://127.0.0.1:{}", "http://127.0.0.1:{}.evil"]
)
def test_other_origins_are_refused(server, origin):
    status, headers, _ = ask(
        server, "POST", path(server, "solve"), example("line"), Origin=origin.format(server.server_port)
    )
    assert status == 403
    assert "Access-Control-Allow-Origin" not in headers


@pytest.mark.every
@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "evil.example:{}", "0.0.0.0:{}"])
def test_other_names_are_refused(server, host):
    """A name of somebody else's that leads to this computer."""
    assert ask(server, "GET", path(server), Host=host.format(server.server_port))[0] == 403


def test_its_own_names_and_origin_are_not(server):
    for name in server.origins:
        assert ask(server, "GET", path(server), Host=name, Origin=f"http://{name}")[0] == 200


@pytest.mark.every
@pytest.mark.parametrize("rest", ["nothing", "../app.js", "..%2fserver.py", "static/app.js", "solve", "app.js/"])
def test_only_its_own_files_are_read(server, rest):
    assert ask(server, "GET", path(server, rest))[0] == 404


@pytest.mark.every
@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"\xff\xfe", 400),
        (b"NaN", 400),
        (b'{"points": [[NaN, 0, 0]]}', 400),
        (b"[" * 50_000, 400),
        (b"null", 400),
        (b"\"__import__('os')\"", 400),
        (b'{"points": "' + b"x" * 1000 + b'"}', 400),
        (b"x" * (LARGEST + 1), 413),
    ],
    ids=["empty", "half", "no text", "NaN", "NaN within", "deep", "null", "text", "no list", "large"],
)
def test_malformed_and_oversized_input(server, content, status):
    for rest in ("solve", "code"):
        found, _, answer = ask(server, "POST", path(server, rest), content)
        assert found == status
        assert json.loads(answer)["error"].endswith(".")
        assert b"Traceback" not in answer


def test_other_types_methods_and_lengths(server):
    assert ask(server, "POST", path(server, "solve"), b"{}", Content_Type="text/plain")[0] == 415
    assert ask(server, "POST", path(server, "example"), {"name": "nothing"})[0] == 400
    assert ask(server, "POST", path(server, "example"), {"name": ["moons"]})[0] == 400
    assert ask(server, "POST", path(server, "nothing"), {})[0] == 404
    for method in ("PUT", "DELETE", "OPTIONS", "HEAD"):
        assert ask(server, method, path(server))[0] == 501
    for length in ("-1", "x", "1e3", "9" * 30):
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=600) as raw:
            head = f"POST {path(server, 'solve')} HTTP/1.0\r\nHost: {server.origins[0]}\r\n{JSON}"
            raw.sendall(f"{head}Content-Length: {length}\r\n\r\n".encode())
            assert raw.recv(100).split()[1] in (b"411", b"413")


def test_who_says_nothing_is_not_waited_for(server):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Handler, "timeout", 0.3)
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
