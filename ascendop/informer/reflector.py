# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Keep a shard equal to the server, for ever: list, then watch, then resume or list again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from random import Random  # noqa: TID251  a type only: the generator is an argument
from typing import Generic

from ascendop.informer.change import Change, T
from ascendop.informer.lines import LineSplitter
from ascendop.informer.observer import InformerObserver
from ascendop.informer.question import Question
from ascendop.informer.recovery import (
    Health,
    InitialEndMissingError,
    Recovery,
    Remedy,
    ShortLivedError,
    SilenceError,
    Then,
)
from ascendop.informer.represent import Event, Representation, UndecodableError
from ascendop.informer.shard import Shard, Staging
from ascendop.informer.slices import BUDGET_S, EVERY, in_slices
from ascendop.informer.source import Source, SyncPolicy
from ascendop.informer.watchdog import Watchdog
from ascendop.kube.errors import ApiError, GoneError, TransportError
from ascendop.kube.resource import Resource, Scope
from ascendop.kube.transport import Stream
from ascendop.telemetry.log import get_log

log = get_log(__name__)

WATCH_S = (300, 600)
"""Servers end watches after a time we choose: connections move to a new server in minutes, and not
all at once."""
OVERTIME_S = 30.0
"""What a server may be late in ending a watch before we do."""
INITIAL_SILENCE_S = 30.0
INITIAL_WARN_S = 10.0
INITIAL_LIMIT_S = 300.0
"""A watch that does not come to the end of its initial events: silent, or slower than any list."""
SILENCE_S = 90.0
SILENT_GAPS = 2.5
"""Bookmarks come once a minute; a watch silent for longer is one whose connection is gone."""
SHORT_S = 1.0
"""No server means to end a watch so soon; a proxy does, again and again."""
LIST_RESTARTS = 2
SLICED_ABOVE_BYTES = 16 * 1024 * 1024
"""A page of ordinary objects is smaller and decoded in one go; a larger body is taken in slices."""
ODD_EVENT_LOG_S = 60.0


class State(Enum):
    """What a reflector is at."""

    STARTING = "starting"
    SYNCING = "syncing"
    """Getting everything; the store, if there is one, is stale."""
    WATCHING = "watching"
    TROUBLED = "troubled"
    """Waiting to ask again."""
    DENIED = "denied"
    """A right is missing."""
    ABSENT = "absent"
    """The server does not serve this kind."""
    STOPPED = "stopped"


_STATE_OF = {
    Health.TROUBLED: State.TROUBLED,
    Health.DENIED: State.DENIED,
    Health.ABSENT: State.ABSENT,
}


@dataclass(slots=True)
class _Conversation(Generic[T]):
    """One watch, from its request to its end."""

    ends_at: float
    """When we end it, if the server does not."""
    staging: Staging[T] | None
    """Where initial events go, until their end."""
    opened_at: float | None = None
    """When the server began to answer."""
    heard_at: float = 0.0
    """When the last bytes came."""
    bookmarked_at: float | None = None
    longest_gap_s: float = 0.0
    """Between two bookmarks."""
    turn_ends_at: float = 0.0
    """When others get the loop: chunks that are all there already come without a pause."""


class Audience(Generic[T]):
    """Who is told of changes. Synchronous; must not raise."""

    def __init__(
        self,
        tell: Callable[[Change[T]], None],
        present: Callable[[], Callable[[Change[T]], None]],
        synced: Callable[[], None],
        swapped: Callable[[int], None],
        changed: Callable[[], None],
    ) -> None:
        self.tell = tell
        """One change, to everybody."""
        self.present = present
        """For the changes of a swap: tells those only who are there now, not who comes later."""
        self.synced = synced
        """The first swap has been told to everybody."""
        self.swapped = swapped
        """Another swap has been told to everybody: of so many objects something was new."""
        self.changed = changed
        """The state is another."""


class Reflector(Generic[T]):
    """One list-and-watch.

    Endless:  nothing but cancellation ends it; a trouble keeps the store and asks again later.
    Complete: the store is replaced only by complete lists, and what vanished in between is told.
    Ordered:  events are applied as they come; the position moves after the store has.
    Polite:   every path through the loop has a pause that grows, but for a watch that lived.
    """

    def __init__(
        self,
        source: Source,
        resource: Resource,
        scope: Scope,
        form: Representation[T],
        shard: Shard[T],
        audience: Audience[T],
        *,
        rng: Random,
        policy: SyncPolicy,
        observer: InformerObserver,
    ) -> None:
        self.resource = resource
        self.shard = shard
        self.state = State.STARTING
        self.synced = False
        """Everything has been listed once, and told to handlers."""
        self.last_event_at: float | None = None
        """Loop time of the last event or bookmark."""
        self.trouble = ""
        """What went wrong last; empty while nothing does."""
        self._source = source
        self._scope = scope
        self._form = form
        self._audience = audience
        self._rng = rng
        self._policy = policy
        self._observer = observer
        self._loop = asyncio.get_running_loop()
        self._recovery = Recovery(rng, metadata_only=scope.metadata_only)
        self._question = Question(watch_list=policy.watch_list)
        self._watchdog: Watchdog | None = None
        """Of the watch that is being read."""
        self._odd_logged_at = float("-inf")

    async def run(self) -> None:
        """Until cancelled."""
        try:
            await asyncio.sleep(self._rng.uniform(0.0, self._policy.start_spread_s))
            while True:
                try:
                    await self._converse()
                except AssertionError:
                    raise  # a bug of our own: the process ends, and somebody reads about it
                except Exception as error:  # noqa: BLE001  whatever it was, the mirror goes on
                    await self._recover(error)
        finally:
            self._set_state(State.STOPPED)

    def resync(self, reason: str) -> None:
        """Get everything again, soon; the store stands until then."""
        if self._question.wanted:
            return  # on its way
        self._question.want(reason, self.shard.position)
        if self._watchdog is not None:
            self._watchdog.call_off()

    async def _converse(self) -> None:
        """Ask once: for everything or for what is new; and read on until that ends."""
        if not self._question.wanted:
            await self._watch(None)
        elif self._question.by_watch(self._loop.time()):
            await self._watch(self.shard.stage())
        else:
            await self._list()

    # LIST

    async def _list(self) -> None:
        """Everything, by pages of one snapshot."""
        began_at = self._loop.time()
        for _ in range(1 + LIST_RESTARTS):
            staging = self.shard.stage()
            with suppress(GoneError):  # the snapshot expired under us
                version = await self._pages(staging, self._policy.page_limit)
                break
        else:
            staging = self.shard.stage()
            version = await self._pages(staging, 0)
        self._observer.took("list_seconds", self._loop.time() - began_at)
        self._recovery.listed(began_at)
        await self._swap(staging, version)

    async def _pages(self, staging: Staging[T], limit: int) -> str:
        """Collect all pages; the version of the snapshot."""
        version = token = ""
        asked = "0" if self._policy.any_age else ""
        while True:
            body = await self._source.list_page(
                self.resource, self._scope, limit=limit, continue_token=token, version=asked
            )
            if len(body) > self._policy.body_limit_bytes:
                raise UndecodableError(f"a list of {len(body)} bytes, more than this can hold")
            self._flows(State.SYNCING)
            token, page_version = await self._stage_page(staging, body)
            version, asked = version or page_version, ""
            if not token:
                return version

    async def _stage_page(self, staging: Staging[T], body: bytes) -> tuple[str, str]:
        if len(body) <= SLICED_ABOVE_BYTES:
            page = self._form.decode_list(body)
            async for row in in_slices(page.rows):
                staging.put(row)
            return page.continue_token, page.version
        parts = self._form.split_list(body)
        async for part in in_slices(parts.items):
            staging.put(self._form.decode_item(part))
        return parts.continue_token, parts.version

    # WATCH

    async def _watch(self, staging: Staging[T] | None) -> None:
        """One watch, with initial events if there is where to put them; until it ends."""
        now = self._loop.time()
        timeout_s = self._rng.randint(*WATCH_S)
        if staging is not None and self._question.staging_since is None:
            self._question.staging_since = now
        version = self.shard.position if staging is None else self._question.floor
        talk = _Conversation(now + timeout_s + OVERTIME_S, staging)
        before = self.shard.position
        try:
            async with self._source.watch(
                self.resource,
                self._scope,
                version=version,
                initial=staging is not None,
                timeout_s=timeout_s,
            ) as stream:
                talk.opened_at = talk.heard_at = self._loop.time()
                self._flows(State.WATCHING if staging is None else State.SYNCING)
                await self._read(stream, talk)
        finally:
            lived_s = self._ended(talk)
        if talk.staging is not None:
            raise InitialEndMissingError("a watch ended in its initial events", stalled=False)
        # A server closes the watch of who reads more slowly than much is written, and what came
        # until then is not lost: only a watch that says nothing at all must not be asked for again
        # and again.
        if lived_s < SHORT_S and self.shard.position == before:
            raise ShortLivedError("a watch was closed as soon as it was opened")

    def _ended(self, talk: _Conversation[T]) -> float:
        """For how long the watch has lived; whatever ended it."""
        if talk.opened_at is None:
            return 0.0
        lived_s = self._loop.time() - talk.opened_at
        if lived_s >= SHORT_S and talk.staging is None:
            self._recovery.lived(talk.opened_at)
        self._observer.took("watch_seconds", lived_s)
        return lived_s

    async def _read(self, stream: Stream, talk: _Conversation[T]) -> None:
        """Take what the stream says, until it ends or says nothing for too long."""
        splitter = LineSplitter()
        chunks = stream.chunks()
        scope = asyncio.timeout(None)
        warning = self._loop.call_later(INITIAL_WARN_S, self._warn_if_silent, talk)
        try:
            async with scope:
                self._watchdog = watchdog = Watchdog(scope)
                watchdog.expect(self._patience_s(talk))
                async for chunk in chunks:
                    watchdog.rest()
                    talk.heard_at = self._loop.time()
                    await self._take(splitter.feed(chunk), talk)
                    watchdog.expect(self._patience_s(talk))
        except TimeoutError as error:
            if not scope.expired():
                raise
            self._fell_silent(talk, error)
        finally:
            if self._watchdog is not None:
                self._watchdog.close()
                self._watchdog = None
            warning.cancel()
            if (close := getattr(chunks, "aclose", None)) is not None:
                await close()

    def _warn_if_silent(self, talk: _Conversation[T]) -> None:
        if talk.staging is not None and self._loop.time() - talk.heard_at >= INITIAL_WARN_S:
            log.warning("initial events do not come", resource=self.resource.name)

    def _patience_s(self, talk: _Conversation[T]) -> float:
        """For how long the stream may say nothing from now on."""
        now = self._loop.time()
        left_s = talk.ends_at - now
        if talk.staging is not None:
            since = self._question.staging_since
            since = now if since is None else since
            return max(0.0, min(left_s, INITIAL_SILENCE_S, since + INITIAL_LIMIT_S - now))
        if talk.bookmarked_at is not None:
            left_s = min(left_s, max(SILENCE_S, SILENT_GAPS * talk.longest_gap_s))
        return max(0.0, left_s)

    def _fell_silent(self, talk: _Conversation[T], error: TimeoutError) -> None:
        """The scope ended: by a resync that was asked for, at its last moment, or in silence."""
        if talk.staging is not None:
            raise InitialEndMissingError(
                "a watch did not come to the end of its initial events", stalled=True
            ) from error
        if not self._question.wanted:
            raise SilenceError("a watch fell silent") from error

    async def _take(self, lines: list[bytes], talk: _Conversation[T]) -> None:
        """Apply lines in order; in slices, if there is much in them."""
        began_at = self._loop.time()
        behind = False
        counts: dict[str, int] = {}
        for n, line in enumerate(lines, 1):
            event = self._form.decode_event(line, lenient=self._question.lenient)
            counts[event.type] = counts.get(event.type, 0) + 1
            if talk.staging is None:
                self._apply(event, talk)
            else:
                await self._apply_initial(event, talk, talk.staging)
            if n % EVERY == 0 and self._loop.time() >= talk.turn_ends_at:
                behind = True
                self._observer.is_at("watch_backlog_bytes", sum(map(len, lines[n:])))
                await asyncio.sleep(0)
                talk.turn_ends_at = self._loop.time() + BUDGET_S
        self.last_event_at = now = self._loop.time()
        for kind, times in counts.items():
            self._observer.count("events_total", times, kind)
        self._observer.took("apply_seconds", now - began_at)
        if behind:
            self._observer.is_at("watch_backlog_bytes", 0)
        if self._form.outgrown(len(self.shard)):
            await self._form.tidy(self.shard.rows())

    def _apply(self, event: Event[T], talk: _Conversation[T]) -> None:
        """Store, then position, then handlers: one step, without an await."""
        row = event.row
        match event.type:
            case "ADDED" | "MODIFIED" if row is not None:
                changes = self.shard.upsert(row)
            case "DELETED" if row is not None:
                changes = self.shard.remove(row)
            case "BOOKMARK":
                self._bookmarked(talk)
                changes = self.shard.move(event.version)
            case "ERROR" if event.error is not None:
                raise event.error
            case _:
                self._log_odd()
                return
        for change in changes:
            self._audience.tell(change)

    async def _apply_initial(
        self, event: Event[T], talk: _Conversation[T], staging: Staging[T]
    ) -> None:
        """Collect; versions in here are in no order, and none of them is a position."""
        row = event.row
        match event.type:
            case "ADDED" | "MODIFIED" if row is not None:
                staging.put(row)
            case "DELETED" if row is not None:
                staging.drop(row)
            case "BOOKMARK":
                if event.ends_initial:
                    talk.staging = None
                    self._bookmarked(talk)
                    await self._swap(staging, event.version)
            case "ERROR" if event.error is not None:
                raise event.error
            case _:
                self._log_odd()

    def _bookmarked(self, talk: _Conversation[T]) -> None:
        now = self._loop.time()
        if talk.bookmarked_at is not None:
            talk.longest_gap_s = max(talk.longest_gap_s, now - talk.bookmarked_at)
        talk.bookmarked_at = now

    async def _swap(self, staging: Staging[T], version: str) -> None:
        """The list is complete: it becomes the store, then handlers hear the differences."""
        first = not self.shard.position
        tell = self._audience.present()
        if not first:
            self._observer.count("resyncs_total", label=self._question.wanted)
        changes: Iterator[Change[T] | None] = self.shard.swap(staging, version)
        self._question.answered()
        self._recovery.synced()
        self._flows(State.WATCHING)
        told = 0
        async for change in in_slices(changes):
            if change is not None:
                tell(change)
                told += not change.unchanged
        self.last_event_at = self._loop.time()
        if not self.synced:
            self.synced = True
            self._audience.synced()
        else:
            self._audience.swapped(told)
        log.debug("listed", resource=self.resource.name, objects=len(self.shard), version=version)

    # Trouble

    async def _recover(self, error: Exception) -> None:
        """Note what the error means for the next question, and wait before it."""
        if isinstance(error, UndecodableError):
            self._observer.count("decode_errors_total")
        now = self._loop.time()
        position = self.shard.position
        remedy = self._recovery.after(
            error, now, position=position, initial=self._question.by_watch(now)
        )
        self._question.follow(remedy.then, _reason_of(error), position, now)
        if remedy.then is Then.WHOLE:
            self._scope = replace(self._scope, metadata_only=False)
        self._log_trouble(error, remedy)
        self._set_state(_STATE_OF[remedy.health])
        await asyncio.sleep(remedy.pause_s)

    def _flows(self, state: State) -> None:
        """The server answers."""
        self.trouble = ""
        self._set_state(state)

    def _set_state(self, state: State) -> None:
        if state is not self.state:
            self.state = state
            self._audience.changed()

    def _log_trouble(self, error: Exception, remedy: Remedy) -> None:
        """A refusal once, with what is refused; an absence quietly; anything else as it comes."""
        again = self.state is _STATE_OF[remedy.health]
        self.trouble = f"{type(error).__name__}: {error}"
        write, event = log.warning, "watch is in trouble"
        if remedy.health is Health.DENIED:
            write, event = (log.debug if again else log.error), "list and watch are forbidden"
        elif remedy.health is Health.ABSENT:
            write, event = log.debug, "kind is not served"
        elif isinstance(error, (GoneError, TransportError, ShortLivedError)) and not again:
            write = log.info  # all in a day's work
        write(
            event,
            resource=self.resource.name,
            namespace=self._scope.namespace or "*",
            trouble=self.trouble,
            then=remedy.then.value,
            pause_s=round(remedy.pause_s, 1),
        )

    def _log_odd(self) -> None:
        now = self._loop.time()
        if now - self._odd_logged_at >= ODD_EVENT_LOG_S:
            self._odd_logged_at = now
            log.warning("watch event of unknown type", resource=self.resource.name)


def _reason_of(error: Exception) -> str:
    if isinstance(error, ApiError):
        return error.reason or str(error.status)
    return type(error).__name__.removesuffix("Error")
