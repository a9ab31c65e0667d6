"""Pages from the templates of this folder: text, and the numbers, tables and pictures that it speaks of."""

from __future__ import annotations

import base64
import shlex
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from matplotlib.figure import Figure

from countjump.report.figures import png


def render(template: str, **values: Any) -> str:
    """What a template makes of the values; HTML escapes text. ``figure | address`` is a picture inside the page, and
    ``path | quote`` a word of a command; ``text | capitalize_first`` begins a sentence.

    >>> render("examples.md", sets={}).strip()
    'The columns with the largest values of random rows, largest first.'
    """
    environment = Environment(autoescape=select_autoescape(), trim_blocks=True, keep_trailing_newline=True)
    environment.loader, environment.undefined = PackageLoader("countjump.report", "."), StrictUndefined
    environment.filters |= {"address": _address, "quote": lambda path: shlex.quote(str(path))}
    environment.filters["capitalize_first"] = lambda text: text[:1].upper() + text[1:]
    return environment.get_template(template).render(**values)


def _address(figure: Figure) -> str:
    return "data:image/png;base64," + base64.b64encode(png(figure)).decode()
