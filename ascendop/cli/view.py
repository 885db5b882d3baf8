# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What a person sees of jobs while they run: a live table on a terminal, else one line a change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final, Self

import msgspec
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from ascendop.api.model import Object
from ascendop.api.observed import PodView
from ascendop.app.mirror import Mirror
from ascendop.builder.names import rank_table_config_map
from ascendop.cli.house import House, JobState
from ascendop.kube.errors import NotFoundError
from ascendop.kube.resource import CONFIGMAPS, PODS
from ascendop.reconciler.observe import OWNER

_COLORS: Final = {
    "Running": "green",
    "Succeeded": "bold green",
    "Failed": "bold red",
    "Restarting": "yellow",
}


class _Status(msgspec.Struct):
    status: str = ""


class Look:
    """One look at everything: jobs as the server has them, the rest as the operator sees it."""

    def __init__(self, jobs: list[JobState], mirror: Mirror) -> None:
        self.jobs = jobs
        self.tables: dict[tuple[str, str], str] = {}
        self.waits: dict[str, str] = {}
        """Of pods by uid: what a container waits for, in the words of its node."""
        self._mirror = mirror

    def pods(self, job: JobState) -> list[PodView]:
        """In order of names; a launcher's, too."""
        row = self._mirror.jobs[job.kind].store.get(job.namespace, job.name)
        if row is None:
            return []
        jobs = self._mirror.beside.jobs
        launchers = jobs.by_index(OWNER, row.uid) if jobs is not None else []
        owners = [row.uid, *(launcher.uid for launcher in launchers)]
        found = (pod for uid in owners for pod in self._mirror.pods.store.by_index(OWNER, uid))
        return sorted(found, key=lambda pod: pod.name)

    def gang(self, job: JobState) -> str:
        """Phase of the PodGroup, with the scheduler's own words when it waits."""
        row = self._mirror.jobs[job.kind].store.get(job.namespace, job.name)
        groups = self._mirror.groups.store.by_index(OWNER, row.uid) if row is not None else []
        if not groups:
            return ""
        group = groups[0]
        waits = group.phase in {"", "Pending"}
        return (
            f"{group.phase or 'new'}: {group.trouble}" if waits and group.trouble else group.phase
        )

    def table(self, job: JobState) -> str:
        """State of the rank table; empty for a job without one."""
        return self.tables.get((job.namespace, job.name), "")

    def pod(self, pod: PodView) -> str:
        """What there is to say of a pod."""
        return _pod_text(pod, self.waits.get(pod.uid, ""))


async def look_at(house: House, mirror: Mirror) -> Look:
    """Take a look."""
    look = Look(await house.jobs(), mirror)
    for job in look.jobs:
        with suppress(NotFoundError):
            name = rank_table_config_map(job.name)
            found = await house.client.get(CONFIGMAPS, job.namespace, name)
            text = str((found.get("data") or {}).get("hccl.json") or "{}")
            look.tables[job.namespace, job.name] = _table_status(text)
        for pod in look.pods(job):
            if any(container.state == "waiting" for container in pod.containers):
                with suppress(NotFoundError):
                    found = await house.client.get(PODS, pod.namespace, pod.name)
                    look.waits[pod.uid] = _waits_for(found)
    return look


def _table_status(text: str) -> str:
    """The ConfigMap is the user's, and may hold anything."""
    try:
        return msgspec.json.decode(text, type=_Status).status
    except msgspec.DecodeError:
        return "no rank table"


def _waits_for(pod: Object) -> str:
    containers = pod["status"].get("containerStatuses") or ()
    waiting = ((container.get("state") or {}).get("waiting") or {} for container in containers)
    return next((str(found["message"]) for found in waiting if found.get("message")), "")


def printable(text: str) -> str:
    """What a container wrote, without what would move the cursor or change the terminal."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    odd = "\N{REPLACEMENT CHARACTER}"
    return "".join(c if c.isprintable() or c in "\t\n" else odd for c in lines)


class Lines:
    """One line for each thing that changed, with the seconds since the start."""

    def __init__(self, write: Callable[[str], None], now: Callable[[], float]) -> None:
        self._write = write
        self._now = now
        self._start = now()
        self._said: dict[str, str] = {}

    def show(self, look: Look) -> None:
        for subject, text in _facts(look):
            if text and self._said.get(subject) != text:
                self._said[subject] = text
                self._write(f"{self._now() - self._start:7.1f}s  {subject}: {text}")


def _facts(look: Look) -> Iterator[tuple[str, str]]:
    for job in look.jobs:
        yield job.title, f"{job.state} ({job.reason}) {job.message}" if job.state else ""
        yield f"{job.title} gang", look.gang(job)
        for pod in look.pods(job):
            yield f"pod {pod.namespace}/{pod.name}", look.pod(pod)
        yield f"{job.title} rank table", look.table(job)


def _pod_text(pod: PodView, waits_for: str) -> str:
    codes = [c.exit_code for c in pod.containers if c.state == "terminated" and c.exit_code]
    waits = [c.reason for c in pod.containers if c.state == "waiting" and c.reason]
    why = f", exit code {codes[0]}" if codes else f", {waits[0]}" if waits else ""
    where = f" on {pod.node}" if pod.node else ""
    said = pod.message or waits_for
    message = f": {said}" if said else ""
    return f"{'Terminating' if pod.deleting else pod.phase}{where}{why}{message}"


class Screen:
    """A table that is drawn anew."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, refresh_per_second=4, transient=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, look: Look) -> None:
        self._live.update(_drawn(look))


def _drawn(look: Look) -> Table:
    table = Table(expand=True)
    for title in ("job", "state", "gang", "rank table", "pods", "last reason"):
        table.add_column(title, overflow="fold")
    for job in look.jobs:
        color = _COLORS.get(job.state, "white")
        table.add_row(
            job.title,
            f"[{color}]{job.state or 'new'}[/{color}]",
            escape(look.gang(job)),
            escape(look.table(job)),
            escape("\n".join(f"{pod.name} {look.pod(pod)}" for pod in look.pods(job))),
            escape(f"{job.reason}: {job.message}") if job.reason else "",
        )
    return table


def verdict(jobs: Iterable[JobState]) -> int:
    """Exit code: 0 all succeeded, 5 a job failed, 6 one has not finished."""
    states = [job.state for job in jobs]
    if "Failed" in states:
        return 5
    return 0 if all(state == "Succeeded" for state in states) else 6
