"""Addresses as people write them, for the library, which takes multiaddresses a line each."""

from __future__ import annotations

import ipaddress
from typing import Sequence

from .errors import BadInput


def lines_of(given: "str | Sequence[str]") -> str:
    return "\n".join(_multiaddress(text) for text in ([given] if isinstance(given, str) else given))


def _multiaddress(text: str) -> str:
    """"HOST:PORT" as a multiaddress; one that is it already stays as it is."""
    if text.startswith("/"):
        return text
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise BadInput(f"{text!r} is no address; write '0.0.0.0:4001' or '/ip4/0.0.0.0/tcp/4001'")
    host = host or "0.0.0.0"
    try:
        kind = f"ip{ipaddress.ip_address(host.strip('[]')).version}"
    except ValueError:
        kind = "dns"
    return f"/{kind}/{host.strip('[]')}/tcp/{port}"
