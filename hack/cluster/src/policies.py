#!/usr/bin/env python3
"""Write iptables rules that let the pods of a cluster receive what its NetworkPolicies allow.

policies.py FOLDER < the List that `kubectl get networkpolicies,namespaces,pods -A -o json` prints

FOLDER gets a file NODE_CONTAINER for each running pod with a network of its own, with the rules
of the pod's chain for `iptables-restore --noflush`; CONTAINER is the id of one of its containers.
What a pod's own node sends passes, as kubelets probe pods from there. Ingress alone, and TCP.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

Object = dict[str, Any]
CHAIN = "STRANDLINE-POLICY"
OPERATORS = {
    "In": lambda value, wanted: value in wanted,
    "NotIn": lambda value, wanted: value not in wanted,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
}


def selects(selector: Object, labels: dict[str, str]) -> bool:
    """Tell whether a label selector takes these labels; an empty one takes all."""
    return all(
        labels.get(key) == value for key, value in selector.get("matchLabels", {}).items()
    ) and all(
        OPERATORS[each["operator"]](labels.get(each["key"]), each.get("values", []))
        for each in selector.get("matchExpressions", [])
    )


class Policies:
    """The policies, pods and namespaces of one moment."""

    def __init__(self, items: list[Object]) -> None:
        self._policies = [each for each in items if each["kind"] == "NetworkPolicy"]
        self._namespaces = {
            each["metadata"]["name"]: each["metadata"].get("labels", {})
            for each in items
            if each["kind"] == "Namespace"
        }
        self.pods = [
            each
            for each in items
            if each["kind"] == "Pod"
            and each["status"]["phase"] == "Running"
            and not each["spec"].get("hostNetwork")
        ]

    def rules(self, pod: Object) -> list[str]:
        """Return the rules of a pod's chain, none if no policy selects it."""
        found = [
            each["spec"]
            for each in self._policies
            if each["metadata"]["namespace"] == pod["metadata"]["namespace"]
            and "Ingress" in each["spec"].get("policyTypes", ["Ingress"])
            and selects(each["spec"]["podSelector"], pod["metadata"].get("labels", {}))
        ]
        if not found:
            return []
        bridge = pod["status"]["podIP"].rpartition(".")[0] + ".1"
        allowed = ["-i lo", "-m conntrack --ctstate ESTABLISHED,RELATED"]
        allowed += [f"-s {address}" for address in (pod["status"]["hostIP"], bridge)]
        for spec in found:
            for entry in spec.get("ingress", []):
                ports = [f"-p tcp --dport {each}" for each in numbers(pod, entry.get("ports", []))]
                senders = self._senders(pod, entry["from"]) if entry.get("from") else [""]
                allowed += [
                    f"{source} {port}".strip()
                    for source in senders
                    for port in (ports if entry.get("ports") else [""])
                ]
        return [*(f"{each} -j ACCEPT" for each in allowed), "-j DROP"]

    def _senders(self, pod: Object, peers: list[Object]) -> list[str]:
        found = []
        for peer in peers:
            if block := peer.get("ipBlock"):
                if block.get("except"):
                    raise ValueError("ipBlock.except is not known here")
                found.append(f"-s {block['cidr']}")
                continue
            found += [
                f"-s {other['status']['podIP']}"
                for other in self.pods
                if self._is_of(other, pod, peer.get("namespaceSelector"))
                and selects(peer.get("podSelector", {}), other["metadata"].get("labels", {}))
            ]
        return found

    def _is_of(self, other: Object, pod: Object, selector: Object | None) -> bool:
        namespace = str(other["metadata"]["namespace"])
        if selector is None:
            return namespace == pod["metadata"]["namespace"]
        return selects(selector, self._namespaces[namespace])


def numbers(pod: Object, ports: list[Object]) -> list[int]:
    """Return the numbers of ports, those that the pod's containers name included."""
    named = {
        port["name"]: int(port["containerPort"])
        for container in pod["spec"]["containers"]
        for port in container.get("ports", [])
        if "name" in port
    }
    return [
        port if isinstance(port, int) else named[port]
        for port in (each["port"] for each in ports)
        if isinstance(port, int) or port in named
    ]


def main() -> None:
    """Write the files."""
    policies = Policies(json.load(sys.stdin)["items"])
    for pod in policies.pods:
        container = pod["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
        rules = [f"-A {CHAIN} {each}" for each in policies.rules(pod)]
        text = "\n".join(["*filter", f":{CHAIN} - [0:0]", *rules, "COMMIT", ""])
        (Path(sys.argv[1]) / f"{pod['spec']['nodeName']}_{container}").write_text(text)


if __name__ == "__main__":
    main()
