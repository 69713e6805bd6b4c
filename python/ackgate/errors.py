"""What can go wrong. Every exception of the package is an `Error`."""

from __future__ import annotations

__all__ = ["ConflictError", "Error", "MissingError", "RunError", "ScenarioError", "SweepError"]


class Error(Exception):
    """Base of all exceptions of this package."""


class ScenarioError(Error, ValueError):
    """A scenario that makes no sense: which key, and where it was written.

    Attributes:
        file: Name of the file; None for values that came from Python.
        line: Line in it, from 1; None when it is about the file as a whole, or there is none.
        key: Dotted key, such as ``tcp.rto_min``; None when it is not about one.
    """

    def __init__(self, message: str, file: str | None = None, line: int | None = None, key: str | None = None) -> None:
        super().__init__(message, file, line, key)
        self.file = file
        self.line = line
        self.key = key

    def __str__(self) -> str:
        return str(self.args[0])


class SweepError(Error, ValueError):
    """A sweep, its folder or its output is not as it should be."""


class ConflictError(SweepError):
    """Two runs of one point differ; the message has both hashes."""


class MissingError(SweepError):
    """Points have not been run yet."""


class RunError(Error, RuntimeError):
    """A run that was begun has no result."""
