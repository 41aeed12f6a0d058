"""What the charts render, and every bound and rule that the CRDs contain."""

from __future__ import annotations

from functools import cache
from typing import Any

from strandline_operator.definitions import paths_of
from tests.support import strandline_objects
from tests.support.strandline_objects import CRDS_CHART

Schema = dict[str, Any]

BOUNDS = (
    *("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "maxProperties"),
    *("pattern", "enum"),
)


def render(*values: str, namespace: str = "somewhere") -> list[dict[str, Any]]:
    """Return all objects of the operator's chart."""
    return strandline_objects.rendered_operator(namespace, *values)


def render_definitions(*values: str) -> list[dict[str, Any]]:
    """Return all objects of the chart of the definitions."""
    return strandline_objects.rendered(CRDS_CHART, *values)


@cache
def crd_schemas() -> dict[str, Schema]:
    """Return the schema of each kind."""
    return {
        item["spec"]["names"]["kind"]: item["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for item in render_definitions()
        if item["kind"] == "CustomResourceDefinition"
    }


def rules(kind: str) -> set[str]:
    """Return the message of every CEL rule of a kind."""
    return {
        rule["message"]
        for _, schema in paths_of(crd_schemas()[kind])
        for rule in schema.get("x-kubernetes-validations", [])
    }


def bounds(kind: str) -> set[str]:
    """Return `path keyword` for every bound of a kind, and `path required` for required fields."""
    found = set()
    for path, schema in paths_of(crd_schemas()[kind]):
        found |= {f"{path} {keyword}" for keyword in BOUNDS if keyword in schema}
        found |= {f"{path}.{field} required".lstrip(".") for field in schema.get("required", [])}
        if schema.get("x-kubernetes-list-type") == "map":
            found.add(f"{path} unique")
    return found


def fields(kind: str) -> set[str]:
    """Return the paths of all values in the spec and status of a kind, lists of values as one."""
    return {
        path.removesuffix("[]")
        for path, schema in paths_of(crd_schemas()[kind])
        if path.split(".")[0] in {"spec", "status"}
        and not {"properties", "additionalProperties"} & set(schema)
        and "properties" not in schema.get("items", {})
    }


def unbounded(kind: str) -> set[str]:
    """Return the paths of texts, lists and maps without a limit; a date-time has its format's."""
    found = set()
    for path, schema in paths_of(crd_schemas()[kind]):
        if path.split(".")[0] not in {"spec", "status"}:
            continue
        text = schema.get("type") == "string" and "enum" not in schema
        if text and "maxLength" not in schema and schema.get("format") != "date-time":
            found.add(path)
        if schema.get("type") == "array" and "maxItems" not in schema:
            found.add(path)
        if "additionalProperties" in schema and "maxProperties" not in schema:
            found.add(path)
    return found
