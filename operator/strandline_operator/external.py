"""The listener for clients outside of the cluster: its Services, and who is found where (ADR 0045).

Pure; called by `observe`, `plan`, `reconcile`, `resources` and `status`. A Service for each broker,
because a client must reach the leader itself, and one for the first contact. An address that is not
known yet is not advertised: clients would keep it, and nobody would answer there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from strandline.config.broker import Ports
from strandline.kube.api import Object
from strandline.model import AdvertisedAddress, BrokerId, joined_address

from . import kinds
from .conditions import Readiness, listed
from .observed import (
    ChosenAddress,
    DesiredCluster,
    DesiredListener,
    FoundService,
    ObjectRef,
    ObservedCluster,
    Ownership,
)

PORT: Final = Ports().external
POD_NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
NODE_PORT: Final = "NodePort"
EXTERNAL_IP: Final = "ExternalIP"
"""The type of a node's address, and what the listener's nodeAddress says to ask for it."""
BROKER_IN_HOST: Final = "{broker}"
"""What the listener's advertisedHost may hold in the place of a broker's id."""


def nodes_asked_for(cluster: DesiredCluster, observed: ObservedCluster) -> set[str] | None:
    """Return the nodes whose ExternalIP brokers shall advertise; None if nobody asks for it."""
    listener = cluster.external
    if listener is None or listener.service_type != NODE_PORT or not listener.by_external_ip:
        return None
    return {pod.node for pod in observed.pods if pod.node}


def service_specs(cluster: DesiredCluster, selector: Mapping[str, str]) -> dict[str, Object]:
    """Return the spec of each Service by the end of its name; none without an external listener."""
    listener = cluster.external
    if listener is None:
        return {}
    specs = {_suffix(None): _service_spec(listener, listener.bootstrap, selector)}
    for broker_id in cluster.broker_ids:
        chosen = listener.brokers[broker_id]
        pod = {POD_NAME_LABEL: f"{cluster.ref.name}-{broker_id}"}
        specs[_suffix(broker_id)] = _service_spec(listener, chosen, {**selector, **pod})
    return specs


def _suffix(broker_id: BrokerId | None) -> str:
    return "external" if broker_id is None else f"external-{broker_id}"


def _service_name(cluster: DesiredCluster, broker_id: BrokerId | None) -> str:
    return f"{cluster.ref.name}-{_suffix(broker_id)}"


def _service_spec(
    listener: DesiredListener, chosen: ChosenAddress, selector: Mapping[str, str]
) -> Object:
    # By number: pods that an earlier operator made do not name the port.
    port: Object = {"name": "kafka", "port": PORT, "targetPort": PORT, "protocol": "TCP"}
    if chosen.node_port is not None:
        port["nodePort"] = chosen.node_port
    return {"type": listener.service_type, "selector": dict(selector), "ports": [port]}


def services_to_remove(cluster: DesiredCluster, observed: ObservedCluster) -> tuple[ObjectRef, ...]:
    """Return the cluster's Services of a listener that nobody wants, or that are in another's way.

    The API server gives a port of the nodes to one Service alone, and a refusal ends a pass: two
    brokers that swap their ports would wait for each other for ever.
    """
    specs = service_specs(cluster, {})
    wanted = {f"{cluster.ref.name}-{suffix}": spec for suffix, spec in specs.items()}
    owner = {spec["ports"][0].get("nodePort"): name for name, spec in wanted.items()}
    first, others = _service_name(cluster, None), f"{_service_name(cluster, None)}-"
    return tuple(
        found.ref
        for (kind, name), (ownership, found) in sorted(observed.parts.items())
        if kind == kinds.SERVICE.kind
        and (name == first or name.startswith(others))
        and (name not in wanted or _is_in_the_way(name, cluster, observed, owner))
        and found.is_applied
        and ownership in {Ownership.OURS, Ownership.ORPHAN}
    )


def _is_in_the_way(
    name: str, cluster: DesiredCluster, observed: ObservedCluster, owner: Mapping[int | None, str]
) -> bool:
    """Tell whether a wanted Service has the port that owner gives to another one.

    One that is a load balancer and stays one is left: without it its address would change.
    """
    found, listener = observed.services[name], cluster.external
    stays = listener is not None and found.service_type == listener.service_type != NODE_PORT
    return not stays and owner.get(found.node_port, name) != name


def addresses(
    cluster: DesiredCluster, observed: ObservedCluster
) -> dict[BrokerId, AdvertisedAddress]:
    """Return what brokers shall advertise outside, without those whose Service has no address."""
    listener = cluster.external
    if listener is None:
        return {}
    found: dict[BrokerId, AdvertisedAddress] = {}
    for broker_id in cluster.broker_ids:
        chosen = listener.brokers[broker_id]
        service = _service_of(cluster, observed, broker_id)
        if service is None:
            continue
        host = chosen.host or listener.host.replace(BROKER_IN_HOST, str(broker_id))
        if listener.service_type == NODE_PORT:
            port = chosen.port or service.node_port
            host = host or _external_ip(cluster, observed, broker_id)
        else:
            host, port = host or service.ingress_host, chosen.port or PORT
        # A broker behind a port of the nodes knows its own node, and may come to another one.
        if port and (host or listener.service_type == NODE_PORT):
            found[broker_id] = AdvertisedAddress(host=host, port=port)
    return found


def _external_ip(cluster: DesiredCluster, observed: ObservedCluster, broker_id: BrokerId) -> str:
    """Return the ExternalIP of a broker's node; "" lets the broker advertise its InternalIP.

    While its pod has no node, or one that is not listed yet, what was wanted before holds: a pod
    mostly comes to the same node, and its change queues another pass.
    """
    if nodes_asked_for(cluster, observed) is None or observed.external_ips is None:
        return ""
    name = f"{cluster.ref.name}-{broker_id}"
    nodes = [pod.node for pod in observed.pods if pod.name == name]
    if nodes and nodes[0] in observed.external_ips:
        return observed.external_ips[nodes[0]]
    _, broker = observed.parts.get((kinds.BROKER.kind, name), (None, None))
    wanted = {} if broker is None else broker.whole["spec"].get("external") or {}
    return str(wanted.get("host", ""))


def _service_of(
    cluster: DesiredCluster, observed: ObservedCluster, broker_id: BrokerId | None
) -> FoundService | None:
    """Return a Service of the wanted type; one that is still of another has another address."""
    found, listener = observed.services.get(_service_name(cluster, broker_id)), cluster.external
    if found is None or listener is None or found.service_type != listener.service_type:
        return None
    return found


def bootstrap_servers(cluster: DesiredCluster, observed: ObservedCluster) -> list[str]:
    """Return the addresses for the first contact from outside as `host:port`; none if unknown.

    Behind a port of the nodes these are the hosts that the brokers advertise: each node forwards.
    """
    listener, service = cluster.external, _service_of(cluster, observed, None)
    if listener is None or service is None:
        return []
    shared = "" if BROKER_IN_HOST in listener.host else listener.host
    host = listener.bootstrap.host or shared
    if listener.service_type == NODE_PORT:
        port = listener.bootstrap.port or service.node_port
        hosts = {host} if host else {each.host for each in observed.advertised.values()}
    else:
        port = listener.bootstrap.port or PORT
        hosts = {host or service.ingress_host}
    return [joined_address(each, port) for each in sorted(hosts) if each and port]


def advertised(cluster: DesiredCluster, observed: ObservedCluster) -> Readiness:
    """Judge whether clients outside can reach every broker; a Service or broker is named if not."""
    known = addresses(cluster, observed)
    without = [each for each in cluster.broker_ids if each not in known]
    services = [_service_name(cluster, each) for each in without]
    if _service_of(cluster, observed, None) is None:
        services.insert(0, _service_name(cluster, None))
    if services:
        message = (
            f"Services without an address yet: {listed(services)}; brokers {without} are not "
            "advertised outside"
        )
        return Readiness(reason="WaitingForServices", message=message)
    silent = [each for each, wanted in known.items() if not _advertises(observed, each, wanted)]
    if silent:
        message = (
            f"brokers {silent} do not advertise their address yet; one that lacks its node's "
            "address, because its pod is older than the operator, needs a new pod"
        )
        return Readiness(reason="WaitingForBrokers", message=message)
    message = f"all {cluster.replicas} brokers are advertised outside"
    internal = [each for each, wanted in known.items() if not wanted.host]
    if internal and nodes_asked_for(cluster, observed) is not None:
        is_allowed = observed.external_ips is not None
        why = "their nodes have no ExternalIP" if is_allowed else "the operator may not list nodes"
        message += f", brokers {internal} by the InternalIP of their nodes: {why}"
    return Readiness(ready=True, reason="AllBrokersAdvertised", message=message)


def _advertises(observed: ObservedCluster, broker_id: BrokerId, wanted: AdvertisedAddress) -> bool:
    found = observed.advertised.get(broker_id)
    return found is not None and found.port == wanted.port and wanted.host in {"", found.host}


def read_listener(spec: Object) -> DesiredListener:
    """Read the external listener of a BrokerCluster's spec, which has one."""
    value = spec["externalListener"]
    chosen = {each["broker"]: each for each in value.get("brokers") or []}
    return DesiredListener(
        service_type=value["type"],
        host=value.get("advertisedHost", ""),
        bootstrap=_read_chosen(value.get("bootstrap") or {}),
        brokers={BrokerId(n): _read_chosen(chosen.get(n, {})) for n in range(spec["replicas"])},
        by_external_ip=value.get("nodeAddress") == EXTERNAL_IP,
    )


def _read_chosen(value: Object) -> ChosenAddress:
    return ChosenAddress(
        node_port=value.get("nodePort"),
        host=value.get("advertisedHost", ""),
        port=value.get("advertisedPort"),
    )


def read_service(value: Object) -> FoundService:
    """Read what Kubernetes gave a Service."""
    spec = value.get("spec") or {}
    ports = spec.get("ports") or [{}]
    ingress = (((value.get("status") or {}).get("loadBalancer") or {}).get("ingress") or [{}])[0]
    return FoundService(
        service_type=spec.get("type", ""),
        node_port=int(ports[0].get("nodePort") or 0),
        ingress_host=str(ingress.get("ip") or ingress.get("hostname") or ""),
    )
