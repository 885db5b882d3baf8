# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The informers of what a job with a launcher has beside its pods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from ascendop.api.observed import GroupView, LauncherView, PodView, SharedView
from ascendop.gang.launched import groups_of
from ascendop.informer import launch_rows
from ascendop.informer.change import Change
from ascendop.informer.informer import Informer
from ascendop.informer.represent import StructForm
from ascendop.informer.rows import groups_form
from ascendop.informer.store import Store
from ascendop.kube.resource import (
    BATCH_JOBS,
    COSCHEDULING_GROUPS,
    SECRETS,
    SHARED_CONFIGMAPS,
    SHARED_SERVICES,
    Resource,
    Scope,
)

APP: Final = "app"
"""The label that Services, ConfigMaps and Secrets of such a job have, and no other."""


class Make(Protocol):
    """Makes an informer of a mirror."""

    def __call__(
        self,
        resource: Resource,
        form: StructForm[Any, Any],
        scopes: tuple[Scope, ...],
        name: str,
        *,
        owned: bool = False,
    ) -> Informer[Any]: ...


@dataclass(frozen=True, slots=True)
class Beside:
    """Empty where no kind has a launcher."""

    launchers: Informer[LauncherView] | None = None
    """Jobs of batch/v1, whoever's: one of somebody else's may have the name of ours."""
    shared: Mapping[str, Informer[SharedView]] = field(default_factory=dict)
    """What the pods of one job share, by kind."""

    groups: Informer[GroupView] | None = None
    """PodGroups, where the gang's scheduler is not Volcano; the cluster may not have them."""

    ended: dict[str, LauncherView] = field(default_factory=dict)
    """The last that was seen of Jobs that had ended when they went, by uid of their owner."""

    gone: dict[str, PodView] = field(default_factory=dict)
    """The last that was seen of a launcher's last pod that is gone, by uid of its Job, which tells
    only that it has failed once too often."""

    is_ours: Callable[[LauncherView], bool] = lambda _job: False
    """Whether the job that owns a Job is there, and of a kind of ours."""

    @property
    def all(self) -> tuple[Informer[Any], ...]:
        return () if self.launchers is None else (self.launchers, *self.shared.values())

    @property
    def known(self) -> bool:
        """All of them are filled."""
        return all(informer.synced.is_set() for informer in self.all)

    @property
    def jobs(self) -> Store[LauncherView] | None:
        return None if self.launchers is None else self.launchers.store

    @property
    def stores(self) -> Mapping[str, Store[SharedView]]:
        return {kind: informer.store for kind, informer in self.shared.items()}

    def job_changed(self, change: Change[LauncherView]) -> None:
        """Keep how a Job ended that goes, most often by its TTL: nobody may have looked before.

        It is forgotten with the job; one that went before its Job leaves nothing to be told.
        """
        old = change.old
        if change.new is not None or old is None:
            return
        if old.end and self.is_ours(old):
            self.forget(old.owner_uid)
            self.ended[old.owner_uid] = old
        else:
            self.gone.pop(old.uid, None)

    def pod_changed(self, change: Change[PodView]) -> None:
        """Keep how a launcher's pod ended: one that restarts in place goes before its Job ends."""
        old = change.old
        if change.new is not None or old is None or old.owner_kind != BATCH_JOBS.kind:
            return
        job = self.launcher_of(old)
        if job is not old and self.is_ours(job):
            self.gone[job.uid] = old

    def forget(self, owner_uid: str) -> None:
        """Nobody will ask any more for what the job with this uid had."""
        ended = self.ended.pop(owner_uid, None)
        if ended is not None:
            self.gone.pop(ended.uid, None)

    def launcher_of(self, row: Any) -> Any:  # noqa: ANN401  a child
        """The Job of a launcher's pod, in the place of the pod; else the child itself.

        A Job that is not there yet wakes its job when it comes.
        """
        if row.owner_kind != BATCH_JOBS.kind or self.launchers is None:
            return row
        job = self.launchers.store.get(row.namespace, row.owner_name)
        return job if job is not None and job.uid == row.owner_uid else row


def mirror_beside(
    make: Make,
    names: Sequence[str | None],
    gang: str,
    is_ours: Callable[[LauncherView], bool],
) -> Beside:
    """The informers, in these namespaces. Of Secrets only the metadata ever come.

    gang:     the scheduler that starts pods as gangs; empty for none.
    is_ours:  see Beside.
    """

    def scopes(**more: Any) -> tuple[Scope, ...]:  # noqa: ANN401  a Scope's
        return tuple(Scope(name, **more) for name in names)

    found = Beside(
        make(BATCH_JOBS, launch_rows.launchers_form(), scopes(), "launchers", owned=True),
        {
            found.kind: make(
                found,
                form,
                scopes(labels=APP, metadata_only=found == SECRETS),
                f"shared {found.plural}",
            )
            for found, form in (
                (SHARED_SERVICES, launch_rows.shared_services_form()),
                (SHARED_CONFIGMAPS, launch_rows.shared_configs_form()),
                (SECRETS, launch_rows.secrets_form()),
            )
        },
        make(groups_of(gang), groups_form(), scopes(), "coscheduling podgroups", owned=True)
        if groups_of(gang) == COSCHEDULING_GROUPS
        else None,
        is_ours=is_ours,
    )
    if found.launchers is not None:
        found.launchers.handle(found.job_changed)
    return found
