# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What a person sees of jobs while they run: a live table on a terminal, else one line a change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Self

import msgspec
from rich.console import Console
from rich.live import Live
from rich.table import Table

from ascendop.api.observed import PodView
from ascendop.app.mirror import Mirror
from ascendop.builder.names import rank_table_config_map
from ascendop.cli.house import House, JobState
from ascendop.kube.errors import NotFoundError
from ascendop.kube.resource import CONFIGMAPS
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

    def __init__(
        self, jobs: list[JobState], mirror: Mirror, tables: dict[tuple[str, str], str]
    ) -> None:
        self.jobs = jobs
        self._mirror = mirror
        self._tables = tables

    def pods(self, job: JobState) -> list[PodView]:
        """In order of names."""
        row = self._mirror.jobs[job.kind].store.get(job.namespace, job.name)
        found = self._mirror.pods.store.by_index(OWNER, row.uid) if row is not None else []
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
        return self._tables.get((job.namespace, job.name), "")


async def look_at(house: House, mirror: Mirror) -> Look:
    """Take a look."""
    jobs = await house.jobs()
    tables = {}
    for job in jobs:
        try:
            name = rank_table_config_map(job.name)
            found = await house.client.get(CONFIGMAPS, job.namespace, name)
        except NotFoundError:
            continue
        text = str((found.get("data") or {}).get("hccl.json") or "{}")
        tables[job.namespace, job.name] = msgspec.json.decode(text, type=_Status).status
    return Look(jobs, mirror, tables)


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
            yield f"pod {pod.namespace}/{pod.name}", _pod_text(pod)
        yield f"{job.title} rank table", look.table(job)


def _pod_text(pod: PodView) -> str:
    codes = [c.exit_code for c in pod.containers if c.state == "terminated" and c.exit_code]
    waits = [c.reason for c in pod.containers if c.state == "waiting" and c.reason]
    why = f", exit code {codes[0]}" if codes else f", {waits[0]}" if waits else ""
    where = f" on {pod.node}" if pod.node else ""
    message = f": {pod.message}" if pod.message else ""
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
            look.gang(job),
            look.table(job),
            "\n".join(f"{pod.name} {_pod_text(pod)}" for pod in look.pods(job)),
            f"{job.reason}: {job.message}" if job.reason else "",
        )
    return table


def verdict(jobs: Iterable[JobState]) -> int:
    """Exit code: 0 all succeeded, 5 a job failed, 6 one has not finished."""
    states = [job.state for job in jobs]
    if "Failed" in states:
        return 5
    return 0 if all(state == "Succeeded" for state in states) else 6
