#!/usr/bin/env python3
"""Give Services of type LoadBalancer addresses of this machine, and lead connections to their pods.

Each Service gets an address 127.250.0.N, on which an nsproxy listens for each of its TCP ports. It
connects to the port's node port at one node, the control plane's, whose kube-proxy leads on to the
pods; node ports are how platforms' load balancers reach pods, too. What holds over a restart is in
the Services' status. The proxies end with this program.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import time
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]
NETWORK = "127.250.0."
NUMBERS = range(1, 255)
LISTENS_WITHIN_SECONDS = 5.0
AGAIN_AFTER_SECONDS = 1.0
"""Time until a watch that ended begins again; the API server may be starting."""
CHUNK_BYTES = 1 << 16
ENDS_WITH_US = ("setpriv", "--pdeathsig", "KILL")


@dataclass
class Balanced:
    """A Service with its address and, by port and node port, its proxies."""

    address: str
    proxies: dict[tuple[int, int], subprocess.Popen[bytes]] = field(default_factory=dict)


class LoadBalancer:
    """Compares the Services that there are with the proxies that run."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._kubectl = [args.kubectl, f"--kubeconfig={args.kubeconfig}"]
        self._balanced: dict[tuple[str, str], Balanced] = {}

    def follow(self) -> None:
        """Look at all Services at each change of one, until the watch ends."""
        watch = ["get", "services", "-A", "--watch", "--output-watch-events", "-o", "json"]
        command = [*ENDS_WITH_US, *self._kubectl, *watch]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as events:
            assert events.stdout is not None
            try:
                # What happened is of no interest: a list tells what is there now.
                while os.read(events.stdout.fileno(), CHUNK_BYTES):
                    self._look()
            finally:
                events.kill()

    def _look(self) -> None:
        listed = subprocess.run(
            [*self._kubectl, "get", "services", "-A", "-o", "json"], capture_output=True, check=True
        )
        wanted = {
            (each["metadata"]["namespace"], each["metadata"]["name"]): each
            for each in json.loads(listed.stdout)["items"]
            if each["spec"]["type"] == "LoadBalancer"
            and "loadBalancerClass" not in each["spec"]
            and "deletionTimestamp" not in each["metadata"]
        }
        for key in self._balanced.keys() - wanted.keys():
            self._stop(self._balanced[key], set())
            del self._balanced[key]
            print(f"{'/'.join(key)}: gone", flush=True)
        # Those with an address keep it, so they come before those that need one.
        for key in sorted(wanted, key=lambda each: not _address(wanted[each])):
            self._serve(key, wanted[key])

    def _serve(self, key: tuple[str, str], service: Object) -> None:
        ports = {
            (int(each["port"]), int(each["nodePort"]))
            for each in service["spec"]["ports"]
            if each.get("protocol", "TCP") == "TCP" and "nodePort" in each
        }
        balanced = self._balanced.get(key)
        if balanced is None:
            address = self._free_address(_address(service), {port for port, _ in ports})
            balanced = self._balanced[key] = Balanced(address)
        self._stop(balanced, ports)
        for pair in ports - balanced.proxies.keys():
            balanced.proxies[pair] = self._proxy(balanced.address, *pair)
        if _address(service) != balanced.address:
            # With ipMode VIP each node would take these connections for itself.
            ingress = [{"ip": balanced.address, "ipMode": "Proxy"}]
            self._patch(key, {"status": {"loadBalancer": {"ingress": ingress}}})
            print(f"{'/'.join(key)}: {balanced.address}, ports {sorted(ports)}", flush=True)

    def _stop(self, balanced: Balanced, keep: set[tuple[int, int]]) -> None:
        """End the proxies whose port is not to be kept, and forget those that ended."""
        for pair, proxy in list(balanced.proxies.items()):
            if pair not in keep or proxy.poll() is not None:
                proxy.kill()
                proxy.wait()
                del balanced.proxies[pair]

    def _free_address(self, former: str, ports: set[int]) -> str:
        taken = {each.address for each in self._balanced.values()}
        for address in (former, *(f"{NETWORK}{number}" for number in NUMBERS)):
            if address.startswith(NETWORK) and address not in taken and _can_listen(address, ports):
                return address
        raise LookupError(f"no address left in {NETWORK}0/24")

    def _proxy(self, address: str, port: int, node_port: int) -> subprocess.Popen[bytes]:
        listen = ["-listen", f"{address}:{port}"]
        dial = ["-dial", f"{self._args.node_address}:{node_port}"]
        node = ["-dial-netns", self._args.node_netns]
        command = [*ENDS_WITH_US, self._args.nsproxy, *listen, *dial, *node]
        proxy = subprocess.Popen(command)
        deadline = time.monotonic() + LISTENS_WITHIN_SECONDS
        while _can_listen(address, {port}) and time.monotonic() < deadline:
            time.sleep(0.02)
        return proxy

    def _patch(self, key: tuple[str, str], patch: Object) -> None:
        namespace, name = key
        status = ["--subresource=status", "--type=merge", f"--patch={json.dumps(patch)}"]
        # A Service that went meanwhile is no error: the watch tells.
        subprocess.run(
            [*self._kubectl, "patch", "service", "-n", namespace, name, *status], check=False
        )


def _address(service: Object) -> str:
    ingress = service.get("status", {}).get("loadBalancer", {}).get("ingress") or [{}]
    return str(ingress[0].get("ip", ""))


def _can_listen(address: str, ports: set[int]) -> bool:
    for port in ports:
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind((address, port))
            except OSError:
                return False
    return True


def main() -> None:
    """Follow the Services until this program is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("kubectl", "kubeconfig", "nsproxy", "node-netns", "node-address"):
        parser.add_argument(f"--{name}", required=True)
    balancer = LoadBalancer(parser.parse_args())
    while True:
        try:
            balancer.follow()
        except subprocess.CalledProcessError as failed:
            print(failed.stderr.decode(errors="replace"), flush=True)
        time.sleep(AGAIN_AFTER_SECONDS)


if __name__ == "__main__":
    main()
