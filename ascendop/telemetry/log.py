# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Events with keys, one line each, on top of the standard library's logging."""

from __future__ import annotations

import logging
import sys
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

import orjson

from ascendop.clock import rfc3339_micro

Format = Literal["json", "text", "auto"]

REPEAT_S = 60.0
"""The same error from the same line is written once in this time, then with a count."""
REPEATS_KEPT = 1024
"""Lines whose errors are remembered; a program has fewer that fail at once."""

_CONTEXT: ContextVar[dict[str, Any]] = ContextVar("log_context", default={})  # noqa: B039  never mutated: `bound` replaces it

logging.getLogger("ascendop").addHandler(logging.NullHandler())  # a library import never prints


class Log:
    """Says what happened: a constant event name, then keys.

    Cheap:  a level that is off costs one comparison.
    Not:    configured here; see `configure`, which only the command line calls.
    """

    __slots__ = ("_logger",)

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def debug(self, event: str, /, **keys: Any) -> None:
        self._write(logging.DEBUG, event, keys)

    def info(self, event: str, /, **keys: Any) -> None:
        self._write(logging.INFO, event, keys)

    def warning(self, event: str, /, **keys: Any) -> None:
        self._write(logging.WARNING, event, keys)

    def error(self, event: str, /, **keys: Any) -> None:
        self._write(logging.ERROR, event, keys)

    def exception(self, event: str, /, **keys: Any) -> None:
        """As error, with the traceback of the exception that is being handled."""
        self._write(logging.ERROR, event, keys, exc_info=True)

    def enabled(self, level: int) -> bool:
        """Whether it is worth computing the keys."""
        return self._logger.isEnabledFor(level)

    def _write(
        self, level: int, event: str, keys: dict[str, Any], *, exc_info: bool = False
    ) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, event, extra={"keys": keys}, exc_info=exc_info, stacklevel=3)


def get_log(name: str) -> Log:
    """What a module writes to; each has one, named after itself."""
    return Log(logging.getLogger(name))


@contextmanager
def bound(**keys: Any) -> Iterator[None]:
    """Add keys to every line written inside, by whomever: libraries do not pass loggers."""
    token = _CONTEXT.set({**_CONTEXT.get(), **keys})
    try:
        yield
    finally:
        _CONTEXT.reset(token)


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """The line as keys and values, in order: time, level, event, where, context, keys, error."""
    fields: dict[str, Any] = {
        "ts": rfc3339_micro(datetime.fromtimestamp(record.created, UTC)),
        "level": record.levelname.lower(),
        "msg": record.getMessage(),
        "logger": record.name,
        **_CONTEXT.get(),
        **getattr(record, "keys", {}),
    }
    error = record.exc_info[1] if record.exc_info else None
    if error is not None and record.exc_info:
        if audit_id := getattr(error, "audit_id", ""):
            fields["audit_id"] = audit_id
        fields["err"] = logging.Formatter().formatException(record.exc_info)
    return fields


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        return orjson.dumps(fields_of(record), default=str, option=orjson.OPT_NON_STR_KEYS).decode()


class TextLines(logging.Formatter):
    """For a person at a terminal: time of day, level, event, then key=value."""

    def format(self, record: logging.LogRecord) -> str:
        fields = fields_of(record)
        clock = datetime.fromtimestamp(record.created, UTC).astimezone().strftime("%H:%M:%S")
        trace = fields.pop("err", "") if record.exc_info else ""
        shown = {k: v for k, v in fields.items() if k not in {"ts", "level", "msg", "logger"}}
        keys = "".join(f" {key}={_shown(value)}" for key, value in shown.items())
        line = f"{clock} {record.levelname:<7} {record.getMessage()}{keys}"
        return f"{line}\n{trace}" if trace else line


class OncePerMinute(logging.Filter):
    """Lets the first of equal warnings and errors through, then one a minute with `repeated`."""

    def __init__(self) -> None:
        super().__init__()
        self._last: OrderedDict[tuple[str, int, str], tuple[float, int]] = OrderedDict()
        """When a line last got through, and how many were held back since."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        error = record.exc_info[0] if record.exc_info else None
        what = error.__name__ if error else record.getMessage()
        place = (record.pathname, record.lineno, what + _subject(record))
        written_at, held_back = self._last.get(place, (-REPEAT_S, 0))
        if record.created - written_at < REPEAT_S:
            self._last[place] = (written_at, held_back + 1)
            return False
        self._last[place] = (record.created, 0)
        self._last.move_to_end(place)
        if len(self._last) > REPEATS_KEPT:
            self._last.popitem(last=False)
        if held_back:
            record.keys = {**getattr(record, "keys", {}), "repeated": held_back}
        return True


def configure(
    level: str,
    form: Format = "auto",
    stream: TextIO | None = None,
    file: logging.Handler | None = None,
) -> None:
    """Send every line to `stream` (stderr). Called once, by the command line.

    level:  debug, info, warning or error; libraries below us stay one level quieter than debug.
    form:   json, text, or auto: text when a person is watching.
    file:   gets every line, too; nobody watches it.
    """
    stream = stream or sys.stderr
    handlers: dict[logging.Handler, bool] = {logging.StreamHandler(stream): stream.isatty()}
    if file is not None:
        handlers[file] = False
    for handler, is_watched in handlers.items():
        as_text = form == "text" or (form == "auto" and is_watched)
        handler.setFormatter(TextLines() if as_text else JsonLines())
        handler.addFilter(OncePerMinute())
    root = logging.getLogger()
    root.handlers = list(handlers)
    root.setLevel(logging.INFO)
    set_level(level)


def set_level(level: str) -> None:
    """Change what is written from now on; may be called while running."""
    logging.getLogger("ascendop").setLevel(level.upper())


def _subject(record: logging.LogRecord) -> str:
    """Which job a line is about: two jobs with one trouble are two lines."""
    context = {**_CONTEXT.get(), **getattr(record, "keys", {})}
    return "".join(
        f"|{context[key]}" for key in ("kind", "namespace", "job", "name", "text") if key in context
    )


def _shown(value: Any) -> str:
    text = str(value)
    return f'"{text}"' if not text or " " in text else text
