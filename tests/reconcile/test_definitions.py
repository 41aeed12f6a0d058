"""What the operator says of definitions that lack fields."""

from __future__ import annotations

from typing import Any

from strandline_operator import definitions
from strandline_operator.definitions import Lacking, lacking, served_fields

GROUP_VERSION_KIND = {"group": "strandline.dev", "version": "v1alpha1", "kind": "Topic"}


def document(**more: Any) -> dict[str, Any]:
    schema = {
        "x-kubernetes-group-version-kind": [{**GROUP_VERSION_KIND, **more}],
        "properties": {
            "spec": {"properties": {"size": {"type": "integer"}}},
            "status": {
                "properties": {"seen": {"items": {"properties": {"at": {"type": "integer"}}}}}
            },
        },
    }
    return {"components": {"schemas": {"a": schema, "b": {"type": "object"}}}}


def test_a_document_shows_the_fields_of_our_version() -> None:
    assert served_fields(document())["Topic"] >= {"spec.size", "status.seen", "status.seen[].at"}
    assert served_fields(document(version="v2")) == {}
    assert served_fields(document(group="example.com")) == {}
    assert served_fields({}) == {}


def test_more_fields_than_needed_do_no_harm() -> None:
    needed = {"Topic": frozenset({"spec.size", "status.seen"})}
    assert not lacking(needed, served_fields(document()))


def test_missing_kinds_and_fields_are_named_with_what_to_run() -> None:
    needed = {"Topic": frozenset({"spec.size", "spec.new"}), "Broker": frozenset({"spec.id"})}
    found = lacking(needed, served_fields(document()))
    assert found == Lacking(kinds=("Broker",), fields=("Topic spec.new",))
    assert str(found) == (
        "missing definitions: Broker; definitions are older than this operator and lack: "
        "Topic spec.new; run helm upgrade --install strandline-crds helm/strandline-crds"
    )


def test_a_long_list_is_cut() -> None:
    many = tuple(f"Topic spec.f{number:02}" for number in range(definitions.FIELDS_NAMED_MAX + 3))
    assert "Topic spec.f09 and 3 more; run" in str(Lacking(kinds=(), fields=many))


def test_the_needed_fields_are_of_the_four_kinds() -> None:
    needed = definitions.needed_fields()
    assert set(needed) == {"Broker", "BrokerCluster", "Partition", "ReplicatedTopic"}
    assert "status.partitionsInitialised" in needed["ReplicatedTopic"]
