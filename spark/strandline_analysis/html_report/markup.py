"""Elements of the page, and how they become text.

Used by every part of the page. All text goes through `text_of`, so that nothing that a table holds
can become markup. The result is HTML and XML at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

VOID: Final = frozenset({"br", "col", "hr", "input", "link", "meta"})
"""Elements of HTML that have no end tag."""
RAW: Final = frozenset({"script", "style"})
"""Elements whose text HTML does not unescape."""
ENTITIES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})


@dataclass(frozen=True, slots=True)
class Element:
    """One element with all that it holds."""

    tag: str
    attributes: tuple[tuple[str, str], ...] = ()
    children: tuple[Element | str, ...] = ()


def element(tag: str, *children: Element | str | None, **attributes: object) -> Element:
    """Return an element; a child or an attribute that is None is left out.

    A trailing underscore of a name is dropped, others become hyphens: class_, stroke_width.
    """
    named = tuple(
        (name.rstrip("_").replace("_", "-"), number(value))
        for name, value in attributes.items()
        if value is not None
    )
    return Element(tag, named, tuple(each for each in children if each is not None))


def number(value: object) -> str:
    """Return an attribute's text: coordinates with two digits at most."""
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return str(value)


def text_of(root: Element) -> str:
    """Return an element with all that it holds as text.

    Raises:  ValueError if a script or a style holds what only HTML or only XML understands
    """
    parts: list[str] = []
    _write(root, parts)
    return "".join(parts)


def escaped(text: str) -> str:
    """Return text without markup, and without characters that a page may not hold."""
    return "".join(each if _is_allowed(each) else "\ufffd" for each in text).translate(ENTITIES)


def _write(node: Element, parts: list[str]) -> None:
    named = "".join(f' {name}="{escaped(value)}"' for name, value in node.attributes)
    if node.tag in VOID:
        parts.append(f"<{node.tag}{named}/>")
        return
    parts.append(f"<{node.tag}{named}>")
    for child in node.children:
        if isinstance(child, Element):
            _write(child, parts)
        elif node.tag not in RAW:
            parts.append(escaped(child))
        elif {"<", "&"} & set(child):
            raise ValueError(f"a {node.tag} with < or & is read differently as HTML and as XML")
        else:
            parts.append(child)
    parts.append(f"</{node.tag}>")


def _is_allowed(character: str) -> bool:
    """Tell whether XML 1.0 and HTML allow a character."""
    code = ord(character)
    if code < 0x20:
        return character in "\t\n\r"
    return not (0x7F <= code <= 0x9F or 0xD800 <= code <= 0xDFFF or code in {0xFFFE, 0xFFFF})
