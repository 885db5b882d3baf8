# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What happened becomes Events, deduplicated; a view for people, never an input."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from random import Random  # noqa: TID251  the type of an argument
from typing import Any, Final, Protocol

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt

from ascendop.apply.series import Bucket, Budget, EventType, Note, Reference, Series
from ascendop.clock import WallClock, rfc3339, rfc3339_micro
from ascendop.errors import AscendopError
from ascendop.kube.errors import (
    BusyError,
    ExistsError,
    ForbiddenError,
    NotFoundError,
    TransportError,
)
from ascendop.kube.resource import CORE_EVENTS, EVENTS, Object, Resource
from ascendop.telemetry.log import get_log

log = get_log(__name__)

CONTROLLER: Final = "ascendop"
"""Who reports, unless a kind's users know another name."""
WAITING: Final = 1000
"""Series that wait for a request; beyond, the oldest goes, but none of an outcome."""
REMEMBERED: Final = 4096
"""Series whose next occurrence is a count and not a new Event."""
DELIVERERS: Final = 2
PER_S: Final = 20.0
"""Requests a second over all objects: Events are the least important writes there are."""
ATTEMPTS: Final = 3
RETRY_S: Final = (1.0, 10.0)
GIVES_WAY_S: Final = 10.0
"""How long an Event lets objects go first, at most."""
LOOK_S: Final = 0.1
TICK_S: Final = 15.0
"""How often counts are looked at that nobody adds to any more."""
NOTE_BYTES: Final = 1024
TOKEN_CHARS: Final = 128
"""Of reason, action and reportingInstance."""
NAME_CHARS: Final = 200


class EventApi(Protocol):
    """What the recorder needs of a client."""

    async def create(self, resource: Resource, obj: Object) -> Object: ...

    async def patch(
        self, resource: Resource, namespace: str | None, name: str, body: dict[str, Any]
    ) -> Object: ...


class EventObserver(Protocol):
    """Who counts: ascendop_events_sent_total and ascendop_events_dropped_total."""

    def event_sent(self) -> None: ...

    def event_dropped(self, reason: str) -> None: ...


class _Silent:
    def event_sent(self) -> None: ...

    def event_dropped(self, reason: str) -> None: ...


class EventRecorder:
    """Says what happened, to whoever looks at the object.

    Instant:  `event` neither waits nor raises; what cannot be told is counted.
    Last:     while objects wait to be written, Events do, for some seconds.
    Brief:    the same thing again is a count in the same Event.
    Honest:   an Event of the outcome is lost neither to a budget nor to a full queue.
    Not:      reliable. Events live for an hour and may be lost; nothing here reads them.
    """

    def __init__(
        self,
        api: EventApi,
        *,
        instance: str,
        wall: WallClock,
        rng: Random,
        controller: str = CONTROLLER,
        observer: EventObserver | None = None,
        objects_wait: Callable[[], bool] = lambda: False,
    ) -> None:
        """`instance` names this process, e.g. its pod; `objects_wait` whether they go first."""
        self._api = api
        self._instance = instance[:TOKEN_CHARS] or CONTROLLER
        self._wall = wall
        self._rng = rng
        self._controller = controller
        self._observer = observer or _Silent()
        self._objects_wait = objects_wait
        self._hurries = False
        """The process ends: nothing is waited for any more."""
        self._time = asyncio.get_running_loop().time
        self._series: OrderedDict[Hashable, Series] = OrderedDict()
        self._waiting: OrderedDict[Hashable, Series] = OrderedDict()
        """Every series that still owes the server a request, in order; none of them twice."""
        self._sending: set[Hashable] = set()
        self._budget = Budget()
        self._pace = Bucket.full(PER_S, 1.0 / PER_S, self._time())
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._core_only = False
        """Whether the server was found to have no events.k8s.io, or we no right to it."""
        self._retry = AsyncRetrying(
            stop=stop_after_attempt(ATTEMPTS - 1),  # the first one is made without it
            wait=self._jitter,
            retry=retry_if_exception_type((TransportError, BusyError)),
            reraise=True,
        )

    def event(
        self,
        regarding: Reference,
        type_: EventType,
        reason: str,
        note: str,
        action: str,
        *,
        related: Reference | None = None,
        controller: str = "",
        outcome: bool = False,
    ) -> None:
        """Note that something happened to `regarding`.

        reason:      CamelCase code. action: what was being done; likewise.
        note:        for people; cut at 1,024 bytes.
        related:     another object that took part. Equal things with different pods are different
                     Events only if the pod is said here.
        controller:  who reports, as users of this kind know it, e.g. ascendjob-controller.
        outcome:     what a user waits to hear: Running, Restarting, Succeeded, Failed.
        """
        try:
            self._take(
                Note(
                    regarding,
                    type_ if type_ in {"Normal", "Warning"} else "Warning",
                    reason[:TOKEN_CHARS],
                    cut(note, NOTE_BYTES),
                    (action or reason)[:TOKEN_CHARS],
                    controller or self._controller,
                    related,
                    outcome,
                )
            )
        except Exception:  # an Event must not break what it tells of
            log.exception("event not noted", reason=reason)

    async def run(self) -> None:
        """Deliver for ever; cancel it after `flush`."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(DELIVERERS):
                tasks.create_task(self._deliver(), name="events")
            tasks.create_task(self._tick(), name="events-tick")

    async def flush(self, within_s: float = 2.0) -> None:
        """Tell what is untold, at most for `within_s`. `run` must be running."""
        self._hurries = True
        for key, series in self._series.items():
            if series.has_untold:
                self._enqueue(key, series)
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._idle.wait()
        if self._waiting:
            log.warning("events not delivered", events=len(self._waiting))
        self._hurries = False

    # ── taking, synchronous ──

    def _take(self, note: Note) -> None:
        now, seen = self._time(), self._wall()
        series = self._series.get(note.key)
        if series is not None and series.is_over(now):
            series = None
        if series is None:
            if not self._budget.allows(note, now):
                self._observer.event_dropped("budget")
                return
            series = Series(note, self._name(note), seen, seen, now)
            self._remember(note.key, series)
            self._enqueue(note.key, series)
        elif series.again(note, now, seen):
            self._enqueue(note.key, series)

    def _remember(self, key: Hashable, series: Series) -> None:
        self._series[key] = series
        self._series.move_to_end(key)
        if len(self._series) > REMEMBERED:
            self._series.popitem(last=False)

    def _enqueue(self, key: Hashable, series: Series) -> None:
        if key not in self._waiting:
            series.owed_at = self._time()
        self._waiting[key] = series
        self._idle.clear()
        if len(self._waiting) > WAITING:
            self._drop_one()
        self._wake.set()

    def _drop_one(self) -> None:
        for key, series in self._waiting.items():
            if not series.newest.outcome:
                del self._waiting[key]
                if series.told == 0:
                    self._series.pop(key, None)
                self._observer.event_dropped("queue full")
                return

    def _name(self, note: Note) -> str:
        stem = note.regarding.name[:NAME_CHARS].rstrip("-.")
        return f"{stem}.{self._rng.getrandbits(64):016x}"

    # ── delivering ──

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            now = self._time()
            for key, series in list(self._series.items()):
                if series.is_over(now):
                    del self._series[key]
                elif series.is_due(now):
                    self._enqueue(key, series)

    async def _deliver(self) -> None:
        while True:
            key, series = await self._next()
            try:
                await asyncio.sleep(self._turn_s())
                await self._let_objects_pass(series.owed_at)
                if await self._tell(series):
                    self._observer.event_sent()
            except AscendopError as error:
                self._observer.event_dropped(type(error).__name__)
                self._forget(key, series)
                log.debug("event not delivered", event=series.newest.reason, error=str(error))
            except Exception:  # a bug here must not end the operator
                self._observer.event_dropped("bug")
                self._forget(key, series)
                log.exception("bug", event=series.newest.reason)
            finally:
                self._sending.discard(key)
                self._wake.set()
                if not self._waiting and not self._sending:
                    self._idle.set()

    async def _next(self) -> tuple[Hashable, Series]:
        """The oldest series that waits and is not being sent by the other deliverer."""
        while True:
            for key, series in self._waiting.items():
                if key not in self._sending:
                    del self._waiting[key]
                    self._sending.add(key)
                    return key, series
            self._wake.clear()
            await self._wake.wait()

    def _turn_s(self) -> float:
        now = self._time()
        wait_s = self._pace.wait_s(now)
        self._pace.left -= 1.0
        return wait_s

    async def _let_objects_pass(self, owed_at: float) -> None:
        until = owed_at + GIVES_WAY_S
        while (  # noqa: ASYNC110  a full queue has no event
            self._objects_wait() and not self._hurries and self._time() < until
        ):
            await asyncio.sleep(LOOK_S)

    def _forget(self, key: Hashable, series: Series) -> None:
        """An Event that the server does not have is not counted on: the next one is new."""
        if self._series.get(key) is series:
            del self._series[key]

    async def _tell(self, series: Series) -> bool:
        """Send what the server does not know yet; whether there was anything."""
        now = self._time()
        if series.wants_new(now) and self._budget.allows(series.newest, now):
            series.renew(self._name(series.newest))
        if series.told == 0:
            await self._post(series)
        elif series.count > series.told:
            await self._count(series)
        else:
            return False
        return True

    async def _post(self, series: Series) -> None:
        count, note = series.count, series.newest
        with suppress(ExistsError):  # an earlier try whose answer was lost
            await self._create(series)
        series.posted(count, self._time(), note.note)

    async def _create(self, series: Series) -> None:
        if self._core_only:
            await self._insist(self._api.create, CORE_EVENTS, self._core_event(series))
            return
        try:
            await self._insist(self._api.create, EVENTS, self._event(series))
        except (NotFoundError, ForbiddenError):
            # No such group, or no right to it; if it is the namespace that is gone or ending,
            # the core group says no as well and nothing is learnt.
            await self._insist(self._api.create, CORE_EVENTS, self._core_event(series))
            self._core_only = True

    async def _count(self, series: Series) -> None:
        count = series.count
        seen = series.last_seen
        body: Object
        if self._core_only:
            resource, body = CORE_EVENTS, {"count": count, "lastTimestamp": rfc3339(seen)}
        else:
            told = {"count": count, "lastObservedTime": rfc3339_micro(seen)}
            resource, body = EVENTS, {"series": told}
        try:
            await self._insist(self._api.patch, resource, _namespace(series), series.name, body)
        except NotFoundError:  # it has lived its hour
            series.name = self._name(series.newest)
            await self._post(series)
        series.told_to(count, self._time())

    async def _insist(self, call: Callable[..., Awaitable[Object]], *what: Any) -> None:  # noqa: ANN401
        """A bare try first: policy costs more than the request, and most need none."""
        try:
            await call(*what)
        except (TransportError, BusyError):
            await asyncio.sleep(self._rng.uniform(*RETRY_S))
            await self._retry(call, *what)

    def _jitter(self, _state: RetryCallState) -> float:
        return self._rng.uniform(*RETRY_S)

    # ── rendering ──

    def _event(self, series: Series) -> Object:
        note = series.newest
        event = {
            "apiVersion": EVENTS.api_version,
            "kind": "Event",
            **self._shared(series),
            "eventTime": rfc3339_micro(series.first_seen),
            "reportingController": note.controller,
            "regarding": note.regarding.render(),
            "note": note.note,
        }
        if series.count > 1:
            last = rfc3339_micro(series.last_seen)
            event["series"] = {"count": series.count, "lastObservedTime": last}
        return event

    def _core_event(self, series: Series) -> Object:
        note = series.newest
        return {
            "apiVersion": CORE_EVENTS.api_version,
            "kind": "Event",
            **self._shared(series),
            "source": {"component": note.controller},
            "reportingComponent": note.controller,
            "involvedObject": note.regarding.render(),
            "message": note.note,
            "count": series.count,
            "firstTimestamp": rfc3339(series.first_seen),
            "lastTimestamp": rfc3339(series.last_seen),
        }

    def _shared(self, series: Series) -> Object:
        note = series.newest
        related = {"related": note.related.render()} if note.related else {}
        return {
            "metadata": {"namespace": _namespace(series), "name": series.name},
            "type": note.type,
            "reason": note.reason,
            "action": note.action,
            "reportingInstance": self._instance,
            **related,
        }


def cut(text: str, limit_bytes: int) -> str:
    """At most so many bytes of UTF-8, and no broken character at the end."""
    return text.encode()[:limit_bytes].decode(errors="ignore")


def _namespace(series: Series) -> str:
    """Events about cluster-scoped objects live in `default`."""
    return series.newest.regarding.namespace or "default"
