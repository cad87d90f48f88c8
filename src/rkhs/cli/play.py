"""`rkhs play`: the server until Ctrl-C."""

from __future__ import annotations

import webbrowser
from threading import Timer
from typing import Any

from rkhs.cli.errors import CommandError
from rkhs.play import Server


def run(port: int, browser: bool, tell: Any) -> dict[str, Any]:
    """Tell the address, open it, and serve; it ends with the process."""
    if not 0 <= port <= 65535:
        raise CommandError(f"--port must be from 0 to 65535, got {port}: 0 takes any that is free.")
    try:
        server = Server(port)
    except OSError as error:
        raise CommandError(f"Port {port} cannot be used ({error.strerror}): take another with --port.") from error
    with server:
        tell({"page": server.address, "stop": "Ctrl-C"})
        if browser:
            Timer(0.2, webbrowser.open, [server.address]).start()
        server.serve_forever()
    return {}
