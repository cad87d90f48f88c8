"""The door of the command.

It is outside of the package because importing the command takes most of a second, in which Ctrl-C has to work too.
"""

import os
import signal


def main() -> None:
    """Run the command; while it is being imported, Ctrl-C ends it without a traceback."""
    signal.signal(signal.SIGINT, _end)
    from rkhs._command import main

    main()


def _end(number: int, _: object) -> None:
    os.write(2, b"Stopped.\n")
    os._exit(128 + number)


if __name__ == "__main__":
    main()
