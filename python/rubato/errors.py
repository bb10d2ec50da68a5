"""What can go wrong, as exceptions. Each message is one line that a user can act on."""

from __future__ import annotations


class Error(Exception):
    """Any failure of Rubato. `code` is a word for it, such as "refused"."""

    code = "error"

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


class BadInput(Error, ValueError):
    """An argument, the model or the cluster file: the user can mend it."""

    code = "bad_input"


class Io(Error, OSError):
    """A file or socket operation failed."""

    code = "io"


class Refused(Error):
    """The cluster said no, and why."""

    code = "refused"


class Timeout(Error, TimeoutError):
    """A deadline passed."""

    code = "timeout"


class Gone(Error):
    """The run ended without its target, or the scheduler is another one."""

    code = "gone"


class Unsupported(Error):
    """This build or machine cannot do it."""

    code = "unsupported"
