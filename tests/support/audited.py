"""What operator and brokers asked of the tests' API servers, as the audit logs show it.

Every API server that tests start writes an audit log, and whoever stops the server hands the log
over. `permissions` judges what was found.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

ACCOUNTS: Final = {
    re.compile(r"strandline-operator"): "operator",
    re.compile(r".+-broker"): "broker",
}
"""Whole names of ServiceAccounts to the program that uses them."""
_PREFIX: Final = "system:serviceaccount:"
_BINDINGS: Final = "rolebindings.rbac.authorization.k8s.io"


class Permission(NamedTuple):
    """Something that a program may do or did; resource is `plural[.group][/subresource]`."""

    program: str
    verb: str
    resource: str

    def __str__(self) -> str:
        return f"{self.program}: {self.verb} {self.resource}"


used: Final[set[Permission]] = set()
"""What this process has collected."""


def collect(folder: Path, *, since: str = "") -> None:
    """Remember what the audit logs in a folder show, from a time of RFC 3339 on."""
    used.update(read(folder, since=since))


def read(
    folder: Path, *, since: str = "", accounts: Mapping[re.Pattern[str], str] = ACCOUNTS
) -> set[Permission]:
    """Return what the programs asked for in all audit logs of a folder."""
    found: set[Permission] = set()
    for path in sorted(folder.glob("audit*.log")):
        with path.open() as lines:
            # A server that was killed may have left half a line.
            whole = (line for line in lines if _PREFIX in line and line.endswith("}\n"))
            found.update(_requests(map(json.loads, whole), since, accounts))
    return found


def _requests(
    events: Iterable[dict[str, Any]], since: str, accounts: Mapping[re.Pattern[str], str]
) -> Iterator[Permission]:
    for event in events:
        user, about = event["user"]["username"], event.get("objectRef")
        if not user.startswith(_PREFIX) or not about or event["requestReceivedTimestamp"] < since:
            continue
        account = user.rpartition(":")[2]
        program = next((name for each, name in accounts.items() if each.fullmatch(account)), None)
        if program is None:
            continue
        group, part = about.get("apiGroup"), about.get("subresource")
        resource = f"{about['resource']}{f'.{group}' if group else ''}{f'/{part}' if part else ''}"
        verb = event["verb"]
        yield Permission(program, verb, resource)
        # Two further checks of the API server stand behind a request of another verb: a patch that
        # creates its object, and a RoleBinding that gives more than its writer has.
        if verb == "patch" and event.get("responseStatus", {}).get("code") == 201:
            yield Permission(program, "create", resource)
        if resource == _BINDINGS and verb in {"create", "patch"}:
            yield Permission(program, "bind", "roles.rbac.authorization.k8s.io")
