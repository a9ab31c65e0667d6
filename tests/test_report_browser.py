"""The report in a real browser: it opens, shows its figures, sorts and filters, asks the network for nothing, and logs no error."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from synthetic import mixed

from countjump import evaluate

BROWSER = shutil.which("chromium")
ARGUMENTS = [
    *("--no-sandbox", "--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]

pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no chromium: `make browser` installs it")


@pytest.fixture(scope="module")
def reports(tmp_path_factory) -> dict[str, Path]:
    """A mixed table with a column that is wrong, and a wide one."""
    rng, place = np.random.default_rng(0), tmp_path_factory.mktemp("reports")
    real, synthetic = mixed(200, rng), mixed(200, rng)
    synthetic["visits"] += 5
    found = {name: place / f"{name}.html" for name in ("mixed", "wide")}
    evaluate(real, synthetic, holdout=mixed(100, rng), label="city", out=found["mixed"])
    counts = [sp.csr_matrix(rng.poisson(0.3, (60, 350))) for _ in range(2)]
    evaluate(*counts, out=found["wide"])
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=BROWSER, args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture
def view(browser, reports) -> Iterator[Any]:
    """Opens a report; at the end there must have been no error, and no request but for the file."""
    troubles: list[str] = []
    pages = []

    def look(name: str, width: int = 1200, scheme: str = "light") -> Any:
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        pages.append(page)
        page.on("console", lambda message: troubles.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on(
            "request",
            lambda request: None if request.url.startswith(("file:", "data:")) else troubles.append(request.url),
        )
        page.goto(reports[name].as_uri())
        return page

    yield look
    for page in pages:
        page.close()
    assert troubles == []


def first_cells(page: Any, place: int) -> list[str]:
    return page.locator(f"#columns tbody tr td:nth-child({place})").all_inner_texts()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("name", ["mixed", "wide"])
def test_it_opens_and_fits(view, name, width, scheme):
    page = view(name, width, scheme)
    assert page.locator("h1").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    charts = page.locator("svg.chart")
    assert charts.count() > 6
    sizes = charts.evaluate_all("all => all.map(each => each.getBoundingClientRect().height)")
    assert min(sizes) > 40
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, paper[4:-1].split(","))) < 200) == (scheme == "dark")


def test_the_worst_column_is_first_and_columns_sort(view):
    page = view("mixed")
    assert first_cells(page, 1)[0] == "visits"
    assert page.locator(".card h4").first.inner_text() == "visits"
    page.get_by_role("button", name="column").click()
    names = first_cells(page, 1)
    assert names == sorted(names)
    page.get_by_role("button", name="column").click()
    assert first_cells(page, 1) == names[::-1]
    page.get_by_role("button", name="distance").click()
    numbers = [float(text) for text in first_cells(page, 3)]
    assert numbers == sorted(numbers, reverse=True)


def test_columns_are_found(view):
    page = view("mixed")
    page.get_by_label("Find a column").fill("VIS")
    assert first_cells(page, 1) == ["visits"]
    assert page.locator(".card[data-name]:visible").count() == 1
    page.get_by_label("Find a column").fill("")
    page.get_by_label("Judgement").select_option("poor")
    assert set(first_cells(page, 2)) == {"poor"}


def test_many_columns_come_as_they_are_asked_for(view):
    page = view("wide")
    assert len(first_cells(page, 1)) == 100
    page.get_by_role("button", name="Show more").click()
    assert len(first_cells(page, 1)) == 350
    assert page.get_by_role("button", name="Show more").is_hidden()
    page.get_by_label("Find a column").fill("349")
    assert first_cells(page, 1) == ["349"]


def test_paper_is_light_and_whole(view):
    page = view("mixed", scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator(".tools").is_hidden()
