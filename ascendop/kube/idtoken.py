# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Tokens of an identity provider: how long they last, and how the loader gets the next one."""

from __future__ import annotations

import base64
from typing import Any, Protocol

import msgspec

from ascendop.clock import WallClock
from ascendop.kube.credentials import REFRESH_AT, Credential, CredentialError, Grant

ASK_AGAIN_S = 60.0
"""Of a provider that does not say how long its token lasts: as often as a token file is read."""


class Loader(Protocol):
    """What we use of kubernetes_asyncio's loader."""

    async def load_and_set(self, client_configuration: Any) -> None:
        """Renew what has expired, and put the result there."""
        ...


class Target(Protocol):
    """Where the loader leaves the token."""

    api_key: dict[str, str]


class _Claims(msgspec.Struct):
    exp: float | None = None


_CLAIMS = msgspec.json.Decoder(_Claims)


def provider_token(
    loader: Loader, target: Target, provider: dict[str, Any], wall_clock: WallClock
) -> Credential:
    """The token that `loader` has just found, and the next ones.

    The loader renews an id-token only in its last minutes, or when there is none: so it is taken
    away first, and put back if no other could be had.
    """

    def grant() -> Grant:
        authorization = target.api_key.get("BearerToken", "").strip()
        left_s = lasts_s(authorization.removeprefix("Bearer "), wall_clock)
        return Grant(authorization, refresh_after_s=left_s * REFRESH_AT)

    async def fetch() -> Grant:
        config = provider.setdefault("config", {})
        kept = config.pop("id-token", None)
        try:
            await loader.load_and_set(target)
        except Exception as error:  # noqa: BLE001  the library lets through whatever its client raises
            raise CredentialError(f"{provider.get('name')}: {type(error).__name__}") from None
        finally:
            if kept is not None:
                config.setdefault("id-token", kept)
        return grant()

    return Credential(fetch, grant=grant())


def lasts_s(token: str, wall_clock: WallClock) -> float:
    """Seconds until a JWT expires; a minute for a token that is none, or does not say."""
    try:
        payload = token.split(".")[1]
        claims = _CLAIMS.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (IndexError, ValueError):  # msgspec's and binascii's errors are ValueErrors
        return ASK_AGAIN_S
    if claims.exp is None:
        return ASK_AGAIN_S
    return max(0.0, claims.exp - wall_clock().timestamp())
