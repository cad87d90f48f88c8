"""Errors of the command: one sentence each."""


class CommandError(Exception):
    """What went wrong and what to do, for somebody at a terminal."""
