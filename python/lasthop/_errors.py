"""Exceptions of lasthop."""

from __future__ import annotations


class ScenarioError(ValueError):
    """Error in a scenario. Its message is one line with the location, the given value, and what is expected.

    Attributes:
        message: line of text, as ``lasthop explain`` prints it.
        file: path of the file, or name of a ready-made scenario.
        key: dotted path of the key, as ``links.radio.rate``; ``None`` if the error is not about a key.
        line: line number in the file, from 1; ``None`` if there is none, as for a value that was set from outside.
    """

    def __init__(
        self, message: str, file: str | None = None, key: str | None = None, line: int | None = None
    ) -> None:
        # All arguments are in `args`, so that the exception survives pickling.
        super().__init__(message, file, key, line)
        self.message = message
        self.file = file
        self.key = key
        self.line = line

    def __str__(self) -> str:
        return self.message


class SweepError(ValueError):
    """Error for a folder that contains another sweep, or other files."""
