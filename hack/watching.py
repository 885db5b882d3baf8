# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A watch of a real server from beside: every change of some kinds, in a thread for each.

Standard library and blocking on purpose: what is tested must not watch itself.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Self
from urllib.parse import urlsplit

from hack.admin import Admin

Object = dict[str, Any]
Seen = Callable[[str, Object], None]
"""Type of the change and the object; called from one thread at a time."""
RELIST_S = 0.2


class Watching:
    """For a `with` block: `seen` hears of all objects there are, then of every change.

    paths:  of collections, with the kind of their items.
    Again:  after a broken stream everything is listed anew; what went meanwhile is DELETED.
    """

    def __init__(self, admin: Callable[[], Admin], paths: dict[str, str], seen: Seen) -> None:
        self.lock = threading.Lock()
        """Held while `seen` runs."""
        self._admin = admin
        self._seen = seen
        self._over = threading.Event()
        self._known: dict[str, dict[str, Object]] = {path: {} for path in paths}
        self._sockets: dict[str, socket.socket] = {}
        self._synced = {path: threading.Event() for path in paths}
        self._threads = [
            threading.Thread(target=self._follow, args=item, daemon=True) for item in paths.items()
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        for event in self._synced.values():
            assert event.wait(30), "the server was not listed"
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for each in list(self._sockets.values()):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # it has ended by itself
        for thread in self._threads:
            thread.join(10)

    def _follow(self, path: str, kind: str) -> None:
        while not self._over.is_set():
            try:
                self._listen(path, kind, self._list(path, kind))
            except (OSError, ValueError, http.client.HTTPException):
                time.sleep(RELIST_S)

    def _list(self, path: str, kind: str) -> str:
        with self._admin() as admin:
            listed = admin.request("GET", path)
        found = {item["metadata"]["uid"]: item for item in listed["items"]}
        for uid in self._known[path].keys() - found.keys():
            self._tell(path, kind, "DELETED", self._known[path][uid])
        self._tell_all(path, kind, found.values())
        self._synced[path].set()
        return str(listed["metadata"]["resourceVersion"])

    def _tell_all(self, path: str, kind: str, found: Iterable[Object]) -> None:
        for item in found:
            known = item["metadata"]["uid"] in self._known[path]
            self._tell(path, kind, "MODIFIED" if known else "ADDED", item)

    def _tell(self, path: str, kind: str, type_: str, obj: Object) -> None:
        uid = obj["metadata"]["uid"]
        if type_ == "DELETED":
            self._known[path].pop(uid, None)
        else:
            self._known[path][uid] = obj
        with self.lock:
            self._seen(type_, {**obj, "kind": kind})

    def _listen(self, path: str, kind: str, version: str) -> None:
        with self._admin() as admin:
            parts = urlsplit(admin.server)
            context = ssl.create_default_context(cafile=admin.ca)
            headers = {"Authorization": f"Bearer {admin.token}"}
        connection = http.client.HTTPSConnection(
            parts.hostname or "", parts.port, timeout=600, context=context
        )
        try:
            query = f"watch=1&resourceVersion={version}"
            connection.request("GET", f"{path}?{query}", headers=headers)
            self._sockets[path] = connection.sock
            for line in connection.getresponse():
                event = json.loads(line)
                if event["type"] == "ERROR" or self._over.is_set():
                    return
                self._tell(path, kind, event["type"], event["object"])
        finally:
            connection.close()
