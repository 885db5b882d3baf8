# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A cluster of real nodes, with the ways in that tests know from a control plane."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self, TextIO

from hack import tools
from hack.admin import Admin
from hack.controlplane import CRDS
from hack.node.cluster import Node
from hack.node.layout import Layout

ADMIN = ("kube-system", "test-admin")


class RealPlane:
    """One real node, or two, with our CRDs and Volcano's.

    folder:  of kubeconfigs; the node's own files lie where its layout says.
    """

    def __init__(self, layout: Layout, folder: Path, *, toleration_s: int = 300) -> None:
        self.folder = folder
        self.node = Node(layout, toleration_s=toleration_s)
        self.server = layout.api
        self._token = ""
        self._turn: TextIO | None = None

    def start(self) -> Self:
        """On return it serves, and its node is Ready. Raises NodeError.

        Whoever comes while another test has the node waits for its turn.
        """
        self._take_turn()
        try:
            self.node.up()  # one that is up already is somebody's, and stays
        except BaseException:
            self._end_turn()
            raise
        try:
            self._prepare()
        except BaseException:
            self.stop()
            raise
        return self

    def _prepare(self) -> None:
        self._give_rights()
        for file in (*tools.files("volcano-crds"), *sorted(CRDS.glob("*.yaml"))):
            self.node.kubectl("apply", "--server-side", "-f", str(file))
        self.node.kubectl("wait", "--for=condition=Established", "crd", "--all")

    def stop(self) -> None:
        """End everything."""
        self.node.down()
        self._end_turn()

    @contextmanager
    def joined(self) -> Iterator[Node]:
        """A second node, for as long as the block lasts."""
        second = Node(self.node.layout.joined()).up()
        try:
            yield second
        finally:
            second.down()
            self.node.kubectl("delete", "node", second.layout.name, "--ignore-not-found")

    def _take_turn(self) -> None:
        file = self.node.layout.run.with_suffix(".lock")
        file.parent.mkdir(parents=True, exist_ok=True)
        self._turn = file.open("w")
        fcntl.flock(self._turn, fcntl.LOCK_EX)

    def _end_turn(self) -> None:
        if self._turn is not None:
            self._turn.close()  # the kernel does it, too, when this process is killed
            self._turn = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _give_rights(self) -> None:
        namespace, name = ADMIN
        self.node.kubectl("create", "serviceaccount", name, "-n", namespace)
        who = f"--serviceaccount={namespace}:{name}"
        self.node.kubectl("create", "clusterrolebinding", name, "--clusterrole=cluster-admin", who)
        self._token = self.node.kubectl("create", "token", name, "-n", namespace).strip()

    # ------------------------------------------------------------ ways in
    @property
    def ca(self) -> Path:
        """What the server's certificate is checked against."""
        return self.node.layout.run / "pki" / "ca.crt"

    def admin(self) -> Admin:
        """Every right."""
        return Admin(self.server, self._token, self.ca)

    @property
    def kubeconfig(self) -> Path:
        """Every right, as a file."""
        return self.node.layout.kubeconfig()

    def service_account(self, namespace: str, name: str) -> Path:
        """A kubeconfig with a real token of this ServiceAccount, made when it is missing."""
        with self.admin() as admin:
            token = admin.token_of(namespace, name)
        cluster = {"server": self.server, "certificate-authority": str(self.ca)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "real", "cluster": cluster}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": "real", "context": {"cluster": "real", "user": name}}],
            "current-context": "real",
        }
        file = self.folder / f"{namespace}-{name}.kubeconfig"
        file.touch(mode=0o600)
        file.write_text(json.dumps(config))
        return file

    def logs(self, namespace: str, pod: str) -> str:
        """What its main container has printed."""
        return self.node.kubectl("logs", "-n", namespace, pod)
