# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Every page below docs/reference/: kinds, settings, reasons and metrics, from the code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client import Metric

from ascendop.api.model import Object
from ascendop.kinds import AnyKind
from ascendop.reconciler.totals import Totals
from ascendop.schema.crd import job_schema
from ascendop.schema.generated import page, table
from ascendop.schema.reasons import reasons
from ascendop.settings import Setting, describe_settings
from ascendop.telemetry.metrics import Metrics


def reference(kinds: Mapping[str, AnyKind]) -> dict[str, str]:
    """Texts by path below docs/reference/, in order of paths."""
    files = {f"kinds/{kind.kind.lower()}.md": kind_page(kind) for kind in kinds.values()}
    files |= {
        "kinds/index.md": index_page(kinds),
        "metrics.md": metrics_page(kinds),
        "reasons.md": reasons_page(),
        "settings.md": settings_page(),
    }
    return dict(sorted(files.items()))


# ── kinds ──


def index_page(kinds: Mapping[str, AnyKind]) -> str:
    rows = (
        (
            f"[{kind.kind}]({kind.kind.lower()}.md)",
            f"`{kind.api_version}`",
            ", ".join(f"`{name}`" for name in (kind.plural, *kind.short_names)),
            _container(kind),
        )
        for kind in kinds.values()
    )
    return page("Kinds", table(("kind", "API version", "names", "main container"), rows))


def kind_page(kind: AnyKind) -> str:
    """Identity, then every field that a user can write, then what is written back."""
    schema = job_schema(kind)["properties"]
    return page(
        kind.kind,
        table(("", ""), _identity(kind)),
        "## Spec",
        table(("field", "type", "meaning"), _fields("spec", schema["spec"])),
        "## Status",
        table(("field", "type", "meaning"), _fields("status", schema["status"])),
    )


def _container(kind: AnyKind) -> str:
    return f"`{kind.container}`" if kind.container else "the first"


def _identity(kind: AnyKind) -> Iterator[tuple[str, str]]:
    yield "API version", f"`{kind.api_version}`"
    yield "names", ", ".join(f"`{n}`" for n in (kind.plural, kind.singular, *kind.short_names))
    yield "main container", _container(kind)
    if kind.port_name:
        yield "default port", f"`{kind.port_name}` {kind.port}"
    yield "default restart policy", f"`{kind.restart_policy}`"
    yield "default clean-up", f"`{kind.clean_pod_policy}`"
    yield "gang scheduling", "unless switched off" if kind.gang_by_default else "if switched on"
    yield "source of Events", f"`{kind.controller}`"
    if kind.scale_role:
        yield "`kubectl scale`", f"sets the replicas of `{kind.scale_role}`"


def _fields(path: str, node: Object) -> Iterator[tuple[str, str, str]]:
    """A row for every field, outer before inner."""
    for name, inner in (node.get("properties") or {}).items():
        where = f"{path}.{name}"
        yield f"`{where}`", _type(inner), inner.get("description", "")
        yield from _below(where, inner)


def _below(path: str, node: Object) -> Iterator[tuple[str, str, str]]:
    if node.get("properties"):
        yield from _fields(path, node)
    elif isinstance(node.get("items"), dict):
        yield from _fields(f"{path}[]", node["items"])
    elif isinstance(node.get("additionalProperties"), dict):
        yield from _fields(f"{path}.<name>", node["additionalProperties"])


def _type(node: Object) -> str:
    if node.get("x-kubernetes-int-or-string"):
        return "number or text"
    if "items" in node:
        return f"list of {_type(node['items'])}"
    if "additionalProperties" in node:
        return f"map of {_type(node['additionalProperties'])}"
    words = {"string": "text", "integer": "number", "number": "number", "boolean": "true or false"}
    is_time = node.get("format") == "date-time"
    found = "time" if is_time else words.get(str(node.get("type")), "object")
    return f"{found}, default `{_shown(node['default'])}`" if "default" in node else found


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# ── the rest ──


def settings_page() -> str:
    about = (
        "A flag wins over its variable, the variable over the settings file (`--config`), "
        "and the file over the default.\n"
        "A setting marked *live* takes effect when the file changes; the others need a restart."
    )
    rows = (_setting(setting) for setting in describe_settings())
    head = ("flag", "variable", "default", "meaning")
    return page("Settings", about, table(head, rows))


def _setting(setting: Setting) -> tuple[str, str, str, str]:
    choices = f" One of {', '.join(f'`{c}`' for c in setting.choices)}." if setting.choices else ""
    live = " *Live.*" if setting.is_live else ""
    default = f"`{setting.default}`" if setting.default else ""
    flag, variable = f"`{setting.flag}`", f"`{setting.env}`"
    return flag, variable, default, f"{setting.sentence}{choices}{live}"


def reasons_page() -> str:
    about = (
        "A reason is a code that programs can rely on; the sentence beside it is for people.\n"
        "`<Kind>` stands for the kind of the job, or of the object that was written."
    )
    by_code: dict[str, tuple[set[str], set[str]]] = {}
    for found in reasons():
        shown, modules = by_code.setdefault(found.code, (set(), set()))
        shown.add(found.shown)
        modules.add(f"`{found.module}`")
    rows = (
        (f"`{code}`", "; ".join(sorted(shown)), ", ".join(sorted(modules)))
        for code, (shown, modules) in by_code.items()
    )
    return page("Reasons", about, table(("code", "shown as", "said by"), rows))


def metrics_page(kinds: Mapping[str, AnyKind]) -> str:
    """The families that a running operator has, with the labels of their samples."""
    metrics = Metrics()
    metrics.requests("server")
    metrics.leader("ascendop")
    for name in kinds:
        metrics.queue(name)
        metrics.controller(name, workers=1)
        metrics.informer(name)
        metrics.jobs(name, ("Running",))
    for name, kind in kinds.items():
        if kind.launch is not None:
            Totals(metrics, name, *kind.launch.metrics).refresh((), leads=False)
    rows = (
        (f"`{_full_name(family)}`", family.type, ", ".join(_labels(family)), family.documentation)
        for family in sorted(metrics.registry.collect(), key=lambda family: family.name)
        if not family.name.startswith("process_")
    )
    about = (
        "Served as `/metrics`; no label names a job, a pod or a namespace,\n"
        "but for those of `mpi_operator_job_info`, as mpi-operator has them.\n"
        "The samples of a histogram end in `_bucket`, `_sum` and `_count`."
    )
    return page("Metrics", about, table(("name", "type", "labels", "meaning"), rows))


def _full_name(family: Metric) -> str:
    return f"{family.name}_total" if family.type == "counter" else family.name


def _labels(family: Metric) -> list[str]:
    return sorted({f"`{n}`" for sample in family.samples for n in sample.labels if n != "le"})
