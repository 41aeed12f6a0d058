"""The page in a real browser: Debian's Chromium runs its script, darkens it, and prints it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from strandline_analysis.html_report.page import html_report
from tests.analysis.test_html_report import EVERY, WINDOW
from tests.support.commands import run

pytestmark = pytest.mark.long

LIMIT_SECONDS = 120
INSTALL_LIMIT_SECONDS = 900
DARK = "--blink-settings=preferredColorScheme=0"

Browser = Callable[..., str]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Browser:
    """Return a call of Chromium with options and the page as its last argument."""
    if shutil.which("chromium") is None:
        install = ["apt-get", "install", "-y", "--no-install-recommends", "chromium"]
        run(install, limit_seconds=INSTALL_LIMIT_SECONDS)
    folder = tmp_path_factory.mktemp("browser")
    page = folder / "report.html"
    page.write_text(html_report(EVERY, WINDOW), encoding="utf-8")
    fixed = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    profile = f"--user-data-dir={folder / 'profile'}"

    def call(*options: str) -> str:
        return run([*fixed, profile, *options, page.as_uri()], limit_seconds=LIMIT_SECONDS)

    return call


@pytest.mark.timeout(INSTALL_LIMIT_SECONDS + LIMIT_SECONDS)
def test_the_script_makes_every_table_sortable_and_filtered(browser: Browser) -> None:
    shown = browser("--dump-dom")
    heads = len(re.findall("<th ", shown))
    assert heads > 30
    assert shown.count('<th scope="col"><button type="button">') == heads
    tables = shown.count("<table>")
    assert tables == shown.count('placeholder="Filter rows"') == len(EVERY) - 1


def test_the_page_is_drawn_light_and_dark_and_printed(browser: Browser, tmp_path: Path) -> None:
    shots = {name: tmp_path / f"{name}.png" for name in ("light", "dark")}
    browser("--window-size=1100,3000", f"--screenshot={shots['light']}")
    browser("--window-size=1100,3000", DARK, f"--screenshot={shots['dark']}")
    light, dark = (shots[name].read_bytes() for name in ("light", "dark"))
    assert light.startswith(b"\x89PNG")
    assert dark.startswith(b"\x89PNG")
    assert light != dark
    paper = tmp_path / "report.pdf"
    browser(f"--print-to-pdf={paper}")
    assert paper.read_bytes().startswith(b"%PDF")
