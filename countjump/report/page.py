"""The page: sections of text, pictures and numbers, in one HTML file with everything inside it."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field

from jinja2 import Environment, PackageLoader, StrictUndefined


@dataclass(frozen=True)
class Picture:
    """A PNG, and in words what it shows."""

    content: bytes
    alt: str

    @property
    def address(self) -> str:
        """The picture as a data address."""
        return "data:image/png;base64," + base64.b64encode(self.content).decode()


@dataclass(frozen=True)
class Section:
    """A heading, a paragraph, and what there is to see: a picture, a table (its first line is the head), a block of code."""

    title: str
    text: str
    picture: Picture | None = None
    table: list[list[str]] = field(default_factory=list)
    code: str = ""


def render(title: str, lead: str, sections: list[Section]) -> str:
    """The whole page; text is escaped.

    >>> "<h2>1 &lt; 2</h2>" in render("A page", "Short.", [Section("1 < 2", "Indeed.")])
    True
    """
    loader = PackageLoader("countjump.report", ".")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.get_template("page.html").render(title=title, lead=lead, sections=sections)
