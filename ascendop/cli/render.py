# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""`ascendop render`: every object that would be made for these jobs, without a server."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, BooleanOptionalAction, Namespace, _SubParsersAction
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

import msgspec
import orjson

from ascendop.api.kind import JobView
from ascendop.api.launch import Place
from ascendop.api.model import Object
from ascendop.api.observed import (
    GroupView,
    JobRow,
    LauncherView,
    PodView,
    ServiceView,
    SharedView,
)
from ascendop.apply.plan import Apply, Create, Done, Plan, Written
from ascendop.builder.ascend_env import CLUSTERD_DOMAIN
from ascendop.builder.content import content_of
from ascendop.builder.pod import GANG_SCHEDULER
from ascendop.cli.files import Located, is_namespace, load_objects
from ascendop.cli.unsayable import shown
from ascendop.errors import InvalidJobError, UsageError
from ascendop.kinds import AnyKind, load_kinds
from ascendop.kube.resource import BATCH_JOBS, POD_GROUPS, PODS, PRIORITY_CLASSES, SERVICES
from ascendop.reconciler.decide import decide
from ascendop.reconciler.snapshot import AnySnapshot, Snapshot, World
from ascendop.reconciler.validate import parse_job
from ascendop.schema.generated import yaml_text

JOB_UID: Final = "JOB_UID"
"""Stands for what the server will choose."""
PASSES: Final = 4  # PodGroup, Services, pods, and one to see that nothing is left
_NEVER: Final = datetime(2000, 1, 1, tzinfo=UTC)  # no rule of a job that is just made asks for it
_FOREIGN: Final = ("", "apps", "batch", "policy", "autoscaling")
_FOREIGN_ENDS: Final = (".k8s.io", ".volcano.sh")


def add_parser(sub: _SubParsersAction[ArgumentParser]) -> None:
    """The verb and its flags."""
    parser = sub.add_parser("render", help="print what would be created for the jobs in files")
    parser.add_argument("files", nargs="+", metavar="FILE", help="YAML; - for standard input")
    parser.add_argument("-n", "--namespace", default="default", help="of jobs that name none")
    parser.add_argument("-o", "--output", choices=("yaml", "json"), default="yaml")
    parser.add_argument(
        "--gang",
        action=BooleanOptionalAction,
        default=None,
        help="whether pods start as a gang; the kind's default when not said",
    )
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Print the objects; warnings go to standard error.

    Raises:  UsageError, with a line for every mistake in any of the files.
    """
    if not is_namespace(args.namespace):
        raise UsageError(f"--namespace: is {shown(args.namespace)}; write a name such as ml-team")
    rendering = Rendering(load_kinds(), namespace=args.namespace, gang=args.gang)
    objects = rendering.objects(load_objects(args.files, sys.stdin))
    sys.stderr.writelines(f"warning: {line}\n" for line in rendering.warnings)
    if args.output == "json":
        found = {"apiVersion": "v1", "kind": "List", "items": objects}
        options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
        sys.stdout.write(orjson.dumps(found, option=options).decode())
    else:
        sys.stdout.write(yaml_text(objects, sort=True))
    return 0


@dataclass(slots=True)
class Rendering:
    """Jobs become the objects that the operator would make, in the order in which it would.

    Identifiers that only a server can give are spelled JOB_UID and CLUSTER_IP(<service>).
    """

    kinds: Mapping[str, AnyKind]
    namespace: str = "default"
    gang: bool | None = None
    """None for each kind's own default."""
    clusterd: str = CLUSTERD_DOMAIN
    """Address of MindCluster's clusterd."""
    warnings: list[str] = field(default_factory=list)

    def objects(self, found: Sequence[Located]) -> list[Object]:
        """What would be made, job by job.

        Raises:  UsageError, with a line for every mistake.
        """
        priorities = {
            str(one.object["metadata"]["name"]): int(one.object.get("value") or 0)
            for one in found
            if (one.kind, one.group) == (PRIORITY_CLASSES.kind, PRIORITY_CLASSES.group)
        }
        made: list[Object] = []
        mistakes: list[str] = []
        jobs = 0
        for one in found:
            try:
                kind = self._kind(one)
                if kind is not None:
                    jobs += 1
                    made += self._job(one, kind, priorities)
            except UsageError as error:
                mistakes.append(str(error))
        if mistakes:
            raise UsageError("\n".join(mistakes))
        if not jobs:
            raise UsageError(f"{found[0]}: there is no job; write one of {self._known()}")
        return made

    def _known(self) -> str:
        return ", ".join(f"{kind.kind} ({kind.api_version})" for kind in self.kinds.values())

    def _kind(self, found: Located) -> AnyKind | None:
        """The kind of a job; None for an object that jobs only stand beside."""
        kind = self.kinds.get(found.kind)
        version = found.object["apiVersion"]
        if kind is not None and kind.api_version == version:
            return kind
        ours = kind is not None or found.group in {k.group for k in self.kinds.values()}
        if not ours and (found.group in _FOREIGN or found.group.endswith(_FOREIGN_ENDS)):
            return None
        raise UsageError(
            f"{found}: kind: {found.kind} of {version} is unknown; write one of {self._known()}"
        )

    def _job(self, one: Located, kind: AnyKind, priorities: Mapping[str, int]) -> list[Object]:
        row = self._row(one.object)
        where = f"{one}: {kind.kind} {row.namespace}/{row.name}"
        try:
            world = self._world(kind, priorities)
            snapshot = _snapshot(kind, row, parse_job(kind, row), world)
            passes = list(_passes(snapshot))
        except InvalidJobError as error:
            raise UsageError("\n".join(f"{where}: {p}" for p in error.problems)) from error
        self.warnings += _warnings(where, passes)
        writes = (write for plan in passes for step in plan.steps for write in step.writes)
        made: dict[tuple[str, str], Object] = {}
        for write in writes:
            if isinstance(write, Create | Apply):
                # Made once: a later pass has not heard of the pods of an earlier one.
                meta = write.object["metadata"]
                made.setdefault((str(write.object["kind"]), str(meta["name"])), write.object)
        return list(made.values())

    def _row(self, obj: Object) -> JobRow:
        metadata = obj["metadata"]
        return JobRow(
            namespace=str(metadata.get("namespace") or self.namespace),
            name=metadata["name"],
            uid=JOB_UID,
            version="0",
            generation=1,
            labels=tuple((metadata.get("labels") or {}).items()),
            annotations=tuple((metadata.get("annotations") or {}).items()),
            spec=msgspec.json.encode(obj["spec"]) if obj.get("spec") is not None else b"",
        )

    def _world(self, kind: AnyKind, priorities: Mapping[str, int]) -> World:
        return World(
            gang=kind.gang_by_default if self.gang is None else self.gang,
            groups_served=True,
            queues_known=False,
            queue=None,
            priorities=priorities,
            priorities_known=False,
            clusterd=self.clusterd,
            place=Place(gang=GANG_SCHEDULER if self.gang else ""),
        )


def _snapshot(kind: AnyKind, row: JobRow, job: JobView, world: World) -> AnySnapshot:  # type: ignore[type-arg]
    return Snapshot(
        kind=kind,
        row=row,
        job=job,
        status={},
        pods=(),
        services=(),
        group=None,
        world=world,
        now=_NEVER,
    )


def _passes(snapshot: AnySnapshot) -> Iterator[Plan]:
    """Plans of the operator's passes, while the server does what it is asked to."""
    for _ in range(PASSES):
        plan = decide(snapshot)
        yield plan
        seen = _with_answers(snapshot, plan)
        if seen == snapshot:
            return
        snapshot = seen


def _with_answers(snapshot: AnySnapshot, plan: Plan) -> AnySnapshot:
    """The cluster after a plan: the gang is let in, and Services have addresses."""
    for step in plan.steps:
        for write in step.writes:
            match write:
                case Apply(resource=resource) if resource == POD_GROUPS:
                    snapshot = replace(snapshot, group=_admitted(write.object))
                case Create(resource=resource) if resource == SERVICES:
                    services = (*snapshot.services, _addressed(write.object))
                    snapshot = replace(snapshot, services=services)
                case Create() if snapshot.kind.launch is not None:
                    snapshot = _with_launched(snapshot, write)
                case _:
                    pass
    return snapshot


def _with_launched(snapshot: AnySnapshot, write: Create) -> AnySnapshot:
    """Pods that serve a launcher get ready, and what is beside them is as it was made."""
    launched, meta = snapshot.launched, write.object["metadata"]
    head: Object = {"namespace": meta["namespace"], "name": write.name, "uid": "", "version": ""}
    if write.resource == PODS:
        pod = PodView(**head, owner_uid=JOB_UID, ready=True)
        return replace(snapshot, pods=(*snapshot.pods, pod))
    if write.resource == BATCH_JOBS:
        suspended = bool(write.object["spec"].get("suspend"))
        job = LauncherView(**head, owner_uid=JOB_UID, suspended=suspended)
        return replace(snapshot, launched=replace(launched, job=job))
    shared = SharedView(**head, owner_uid=JOB_UID, content=content_of(write.object))
    found = {**launched.shared, str(write.object["kind"]): shared}
    return replace(snapshot, launched=replace(launched, shared=found))


def _admitted(group: Object) -> GroupView:
    metadata = group["metadata"]
    return GroupView(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid="",
        version="",
        owner_uid=JOB_UID,
        labels=tuple((metadata.get("labels") or {}).items()),
        annotations=tuple((metadata.get("annotations") or {}).items()),
        spec=msgspec.json.encode(group["spec"]),
        phase="Inqueue",
    )


def _addressed(service: Object) -> ServiceView:
    metadata, spec = service["metadata"], service["spec"]
    return ServiceView(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid="",
        version="",
        owner_uid=JOB_UID,
        cluster_ip=spec.get("clusterIP") or f"CLUSTER_IP({metadata['name']})",
        ports=tuple((port["name"], port["port"]) for port in spec["ports"]),
    )


def _warnings(where: str, passes: Sequence[Plan]) -> Iterator[str]:
    """What the operator would warn of in Events."""
    for plan in passes:
        written = tuple(Written(step.name, w) for step in plan.steps for w in step.writes)
        conclusion = plan.conclude(Done(written=written))
        for event in conclusion.events if conclusion else ():
            if event.type == "Warning":
                yield f"{where}: {event.note} ({event.reason})"
