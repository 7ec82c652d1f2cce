"""The exceptions of lasthop."""

from __future__ import annotations


class ScenarioError(ValueError):
    """A scenario that cannot be: its message is one line that says where, what was given, and what would be right.

    Attributes:
        message: the line, as ``lasthop explain`` prints it.
        file: the file, or the name of a ready-made scenario.
        key: the dotted path of the key in question, as ``links.radio.rate``; ``None`` where it is not about a key.
        line: its line in the file, from 1; ``None`` where there is none, as for a value that was set from outside.
    """

    def __init__(
        self, message: str, file: str | None = None, key: str | None = None, line: int | None = None
    ) -> None:
        # All of them in `args`, so that the exception survives pickling.
        super().__init__(message, file, key, line)
        self.message = message
        self.file = file
        self.key = key
        self.line = line

    def __str__(self) -> str:
        return self.message


class SweepError(ValueError):
    """A folder that cannot hold a sweep: another one, or something else, is in it."""
