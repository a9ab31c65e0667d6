"""Small charts as inline SVG, drawn with the page's own colours so that they are right in light and in dark."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np

WIDTH, HEIGHT = 320, 130
_LEFT, _RIGHT, _TOP, _BOTTOM = 6, 314, 16, 106
BINS = 30


class Bins(NamedTuple):
    """Where values fall."""

    edges: np.ndarray
    zero: bool
    """Whether a bin of its own, before the others, is for zero."""
    logarithmic: bool


def choose_bins(values: np.ndarray, whole: bool = False) -> Bins:
    """One bin per whole number where they are few, logarithmic ones where the tail needs them, equal ones otherwise.

    >>> choose_bins(np.array([0, 1, 2, 2]), whole=True).edges
    array([-0.5,  0.5,  1.5,  2.5])
    """
    low, high = float(values.min()), float(values.max())
    if whole and high - low <= 40:
        return Bins(np.arange(low - 0.5, high + 1), False, False)
    positive = values[values > 0]
    if low >= 0 and len(positive) and high > 20 * np.median(positive) and high > 50 * np.quantile(positive, 0.02):
        first = float(max(positive.min(), high / 1e6))
        return Bins(np.geomspace(first, high * (1 + 1e-9), BINS), bool(low == 0 or positive.min() < first), True)
    first, last = (float(np.quantile(values, q)) for q in (0.0005, 0.9995)) if len(values) > 1000 else (low, high)
    if first == last:
        first, last = (low, high) if high > low else (low - 0.5, low + 0.5)
    return Bins(np.linspace(first, last, BINS + 1), False, False)


def shares(values: np.ndarray, bins: Bins) -> np.ndarray:
    """The share of the values in every bin; what is beyond the ends is in the last bins."""
    edges = bins.edges
    inside = values[values >= edges[0]] if bins.zero else values
    counts = np.histogram(np.clip(inside, edges[0], edges[-1]), edges)[0]
    counts = np.concatenate([[len(values) - len(inside)], counts]) if bins.zero else counts
    return counts / max(len(values), 1)


def histogram(real: np.ndarray, synthetic: np.ndarray, whole: bool = False, dates: bool = False) -> str:
    """The real values filled, the synthetic ones as a line; logarithmic axes are said to be."""
    both = np.concatenate([real, synthetic])
    if not len(both):
        return _svg(f'<text x="{WIDTH / 2}" y="60" class="ct" text-anchor="middle">no values</text>', "no values")
    bins = choose_bins(both, whole)
    sides = [shares(values, bins) for values in (real, synthetic)]
    seen = np.concatenate(sides)
    seen = seen[seen > 0]
    tall = seen.max() > 25 * np.median(seen)
    least = 0.5 * seen.min()

    def height(share: np.ndarray) -> np.ndarray:
        part = np.log(np.maximum(share, least) / least) / np.log(seen.max() / least) if tall else share / seen.max()
        return _BOTTOM - part * (_BOTTOM - _TOP)

    count = len(sides[0])
    places = np.linspace(_LEFT, _RIGHT, count + 1)
    filled = "".join(
        f"M{a:.1f} {_BOTTOM}V{y:.1f}H{b:.1f}V{_BOTTOM}z"
        for a, b, y, share in zip(places[:-1], places[1:] - 0.6, height(sides[0]), sides[0], strict=True)
        if share > 0
    )
    line = f"M{_LEFT} {_BOTTOM}" + "".join(
        f"V{y:.1f}H{b:.1f}" for b, y in zip(places[1:], height(sides[1]), strict=True)
    )
    axis = f'<path d="M{_LEFT} {_BOTTOM}H{_RIGHT}" class="ax"/>'
    drawn = f'<path d="{filled}" class="r"/><path d="{line}V{_BOTTOM}" class="s"/>{axis}{_ticks(bins, places, dates)}'
    scales = [name for name, used in (("log x", bins.logarithmic), ("log y", tall)) if used]
    if scales:
        drawn += f'<text x="{_RIGHT}" y="10" class="ct" text-anchor="end">{", ".join(scales)}</text>'
    return _svg(drawn, "histogram of real and synthetic values")


def bars(names: Sequence[str], real: np.ndarray, synthetic: np.ndarray) -> str:
    """Shares of levels as pairs of bars, the most frequent first, with both shares; the ones that do not fit are one."""
    most, long = 6, 138
    order = np.argsort(-(real + synthetic), kind="stable")
    lines = [(names[j], real[j], synthetic[j]) for j in order[:most]]
    if len(names) > most:
        lines.append((f"{len(names) - most} others", real[order[most:]].sum(), synthetic[order[most:]].sum()))
    top, step = max(max(r, s) for _, r, s in lines) or 1.0, (HEIGHT - 6) / len(lines)
    thick, parts = min(step * 0.36, 12), []
    for i, (name, r, s) in enumerate(lines):
        y = 3 + (i + 0.5) * step
        parts.append(f'<text x="96" y="{y + 3.5:.1f}" class="ct" text-anchor="end">{escape(_short(name))}</text>')
        parts.append(f'<rect x="102" y="{y - thick:.1f}" width="{long * r / top:.1f}" height="{thick:.1f}" class="r"/>')
        parts.append(f'<rect x="102" y="{y:.1f}" width="{long * s / top:.1f}" height="{thick:.1f}" class="sf"/>')
        end = 106 + long * max(r, s) / top
        parts.append(f'<text x="{end:.1f}" y="{y + 3.5:.1f}" class="ct">{r:.0%} → {s:.0%}</text>')
    return _svg("".join(parts), "shares of the levels, real and synthetic")


def heat_map(names: Sequence[str], matrix: np.ndarray) -> str:
    """A square per pair of columns, the stronger the more they hang together; two colours for two signs."""
    count, label = len(names), 100
    size = 320 / count
    parts = []
    for i in range(count):
        text = escape(_short(names[i], 14))
        y = (i + 0.5) * size
        parts.append(f'<text x="{label - 5}" y="{y + 3:.1f}" class="ct" text-anchor="end">{text}</text>')
        for j in range(count):
            value = float(matrix[i, j])
            if abs(value) >= 0.02:
                title = f"{escape(names[i])} × {escape(names[j])}: {value:.2f}"
                place = (
                    f'x="{label + j * size:.1f}" y="{i * size:.1f}" width="{size - 0.6:.1f}" height="{size - 0.6:.1f}"'
                )
                sign = "p" if value > 0 else "n"
                parts.append(f'<rect {place} class="{sign}" opacity="{abs(value):.2f}"><title>{title}</title></rect>')
    box = f'<rect x="{label}" y="0" width="320" height="320" class="box"/>'
    return _svg(box + "".join(parts), "how columns hang together", label + 320, 320, "map")


def scatter(real: np.ndarray, synthetic: np.ndarray) -> str:
    """Points of both, on one scale; the outermost half per cent lies on the border."""
    both = np.vstack([real, synthetic])
    low, high = np.quantile(both, 0.005, axis=0), np.quantile(both, 0.995, axis=0)
    span = np.where(high > low, high - low, 1.0)

    def path(points: np.ndarray) -> str:
        at = (np.clip((points - low) / span, 0, 1) * [608, -308] + [16, 324]).round(1)
        return "".join(f"M{x:g} {y:g}h0" for x, y in at)

    layers = f'<path d="{path(real)}" class="dr"/><path d="{path(synthetic)}" class="ds"/>'
    return _svg(
        f'<rect width="640" height="340" class="box"/>{layers}', "real and synthetic rows as points", 640, 340, "map"
    )


def _ticks(bins: Bins, places: np.ndarray, dates: bool) -> str:
    edges = bins.edges
    shift = 1 if bins.zero else 0
    count = len(edges) - 1
    if not bins.logarithmic and np.allclose(np.diff(edges), 1) and edges[0] % 1 == 0.5:
        step = max(1, -(-count // 10))
        labels = [((places[j] + places[j + 1]) / 2, edges[j] + 0.5) for j in range(0, count, step)]
    else:
        some = [0, count // 2, count] if dates else [0, count // 3, 2 * count // 3, count]
        labels = [(places[j + shift], edges[j]) for j in some]
    texts = [(x, _date(value) if dates else _number(value)) for x, value in labels]
    if bins.zero:
        texts = [((places[0] + places[1]) / 2, "0"), *texts[1:]]
    parts = []
    for i, (x, text) in enumerate(texts):
        anchor = "start" if x < 20 and i == 0 else "end" if x > 300 else "middle"
        parts.append(f'<text x="{x:.1f}" y="121" class="ct" text-anchor="{anchor}">{text}</text>')
    return "".join(parts)


def _svg(inside: str, label: str, width: float = WIDTH, height: float = HEIGHT, kind: str = "small") -> str:
    box = f'viewBox="0 0 {width:g} {height:g}"'
    return f'<svg {box} class="chart {kind}" role="img" aria-label="{escape(label)}">{inside}</svg>'


def _short(text: str, most: int = 15) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _number(value: float) -> str:
    """With three digits.

    >>> _number(0.0012345), _number(1234567), _number(-3.0)
    ('0.00123', '1.23M', '-3')
    """
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= unit:
            return f"{value / (1e3 if name == 'k' else unit):.3g}{name}"
    return f"{value:.4g}" if abs(value) >= 1000 else f"{value:.3g}"


def _date(days: float) -> str:
    return str(np.datetime64("1970-01-01") + np.timedelta64(int(np.floor(days)), "D"))
