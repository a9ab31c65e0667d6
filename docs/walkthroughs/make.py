"""Make the pictures of the walk-throughs: ``python docs/walkthroughs/make.py`` (a minute; needs playwright and chromium).

The code of a page is run as the tests run it, and the head of the ``report.html`` that it writes is the page's picture.
"""

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

HERE = Path(__file__).resolve().parent
WIDTH, HEIGHT = 1000, 700
ARGUMENTS = ["--no-sandbox", "--headless", "--disable-gpu"]


def report_of(page: Path, place: Path) -> Path:
    """Run a page's code in a directory of its own; the report that it wrote there."""
    os.chdir(place)
    names = {"__name__": "documentation"}
    for code in re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL):
        exec(code, names)
    return place / "report.html"


def main() -> None:
    """The named pages, or all."""
    for page in [HERE / f"{name}.md" for name in sys.argv[1:]] or sorted(HERE.glob("*.md")):
        with tempfile.TemporaryDirectory() as place, sync_playwright() as driver:
            report = report_of(page, Path(place))
            if report.exists():
                browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
                view = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
                view.goto(report.as_uri())
                view.screenshot(path=page.with_suffix(".png"))
                browser.close()
            os.chdir(HERE)


if __name__ == "__main__":
    main()
