"""Errors of the command: one sentence each."""


class CommandError(Exception):
    """What went wrong and what to do, for somebody at a terminal."""


def reason(error: Exception) -> str:
    """What an error says, without the number of a system error."""
    if isinstance(error, MemoryError):
        return f"There is not enough memory ({error}): use fewer rows or columns"
    return error.strerror if isinstance(error, OSError) and error.filename is None and error.strerror else str(error)
