"""The report in a real browser: it opens, the tree opens and closes, search finds, the console is quiet."""

from __future__ import annotations

import os
import shutil
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtree
from dtree.core.tree import Tree
from dtree.datasets import nested_creatures

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
# The network is closed where tests run: without these the browser asks for its own servers at every start.
FLAGS = [
    "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium on this machine: apt-get install chromium (.ci/run does)"
)
HOSTILE = "</script><img src=x onerror=\"document.title='broken'\"><b>&amp;"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install 'dtree[dev]'"
    )
    as_root = hasattr(os, "geteuid") and os.geteuid() == 0
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS + (["--no-sandbox"] if as_root else []))
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def creatures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = nested_creatures(90)
    names = [HOSTILE, *data.row_names[1:]]
    model = dtree.BHC("gaussian-diag").fit(data.X)
    return dtree.report(
        model, tmp_path_factory.mktemp("page") / "creatures.html", names, feature_names=data.feature_names
    )


def _open(browser: Any, page: Path, **context: Any) -> tuple[Any, list[str]]:
    """The page, ready, and a list in which its complaints gather."""
    opened = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **context}).new_page()
    complaints: list[str] = []
    opened.on("console", lambda message: complaints.append(message.text))
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on(
        "request",
        lambda request: None if request.url.startswith(("file:", "data:")) else complaints.append(request.url),
    )
    opened.goto(page.as_uri())
    opened.wait_for_selector("html[data-ready=yes]")
    return opened, complaints


def _distinct_colours(screenshot: bytes) -> int:
    """Colours in a PNG, enough to tell a page from a blank sheet."""
    width, height, _, kind = struct.unpack(">IIBB", screenshot[16:26])
    place, packed = 8, b""
    while place < len(screenshot):
        (length,) = struct.unpack(">I", screenshot[place : place + 4])
        if screenshot[place + 4 : place + 8] == b"IDAT":
            packed += screenshot[place + 8 : place + 8 + length]
        place += length + 12
    depth = 4 if kind == 6 else 3
    # Filtered lines of a blank sheet hold zeros and one colour; those of a page hold many values.
    lines = np.frombuffer(zlib.decompress(packed), dtype=np.uint8).reshape(height, 1 + width * depth)
    return np.unique(lines[:, 1:]).size


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 1200), ("light", 390)])
def test_it_opens_and_fits_the_screen(browser: Any, creatures: Path, scheme: str, width: int) -> None:
    page, complaints = _open(browser, creatures, color_scheme=scheme, viewport={"width": width, "height": 844})
    assert complaints == []
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert _distinct_colours(page.screenshot()) > 50
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(int(part) for part in paper[4:-1].split(",")[:3])
    assert brightness < 200 if scheme == "dark" else brightness > 700


def test_nodes_open_and_close(browser: Any, creatures: Path) -> None:
    page, complaints = _open(browser, creatures)
    items = page.locator("#tree-view .item")
    before = items.count()
    page.locator('.item[aria-expanded="false"]').first.click()
    assert items.count() > before
    root = page.locator('.item[aria-level="1"]')
    assert root.get_attribute("aria-expanded") == "true"
    root.click()
    assert items.count() == 1
    assert root.get_attribute("aria-expanded") == "false"
    assert complaints == []


def test_search_finds_and_shows_a_row(browser: Any, creatures: Path) -> None:
    page, complaints = _open(browser, creatures)
    assert page.locator(".item.hit").count() == 0
    page.fill("#search", "seal 7")
    assert page.locator("#found li").first.inner_text() == "seal 7"
    page.press("#search", "Enter")
    assert page.locator(".item.hit text").text_content() == "seal 7"
    assert page.locator("#node h3").inner_text() == "seal 7"
    page.fill("#search", "unicorn")
    assert page.locator("#found li").all_inner_texts() == ["no such name"]
    assert complaints == []


def test_the_keyboard_alone_suffices(browser: Any, creatures: Path) -> None:
    page, complaints = _open(browser, creatures)
    page.focus("#tree-view")
    for key in ("ArrowRight", "ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    chosen = page.locator("#tree-view").get_attribute("aria-activedescendant")
    assert page.locator(f"#{chosen}").get_attribute("role") == "treeitem"
    assert chosen != page.locator('.item[aria-level="1"]').get_attribute("id")
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    assert page.locator("#tree-view .item").count() == 1
    assert complaints == []


def test_hovering_tells_size_r_level_and_features(browser: Any, creatures: Path) -> None:
    page, _ = _open(browser, creatures)
    page.locator('.item[aria-level="2"]').first.hover()
    text = page.locator("#tip").inner_text()
    assert all(word in text for word in ("rows", "level", "r\n", "Unlike its sibling in", " sd (sibling "))


def test_a_cluster_of_the_table_is_shown_in_the_tree(browser: Any, creatures: Path) -> None:
    page, _ = _open(browser, creatures)
    page.locator("button.show").nth(3).click()
    assert page.locator(".item.hit").count() == 1
    assert "10" in page.locator("#node").inner_text()


def test_a_hostile_name_stays_a_name(browser: Any, creatures: Path) -> None:
    page, complaints = _open(browser, creatures)
    page.fill("#search", "onerror")
    page.press("#search", "Enter")
    assert page.locator("#node h3").inner_text() == HOSTILE
    assert page.locator("img[src=x]").count() == 0
    assert "broken" not in page.title()
    assert complaints == []


def test_ten_thousand_leaves_stay_few_elements(browser: Any, tmp_path: Path) -> None:
    tree = balanced_tree(10_000)
    assert np.unique(tree.cut()).size == 39
    file = dtree.report(tree, tmp_path / "large.html")
    began = time.perf_counter()
    page, complaints = _open(browser, file)
    assert time.perf_counter() - began < 3.0
    assert page.locator("#tree-view *").count() < 500
    page.get_by_role("button", name="Open all").click()
    assert page.locator("#tree-view *").count() < 1500
    page.fill("#search", "row 7777")
    page.press("#search", "Enter")
    assert page.locator(".item.hit text").text_content() == "row 7777"
    assert complaints == []


def balanced_tree(leaves: int) -> Tree:
    """A tree over single rows by joining neighbours; its clusters are the largest nodes of fewer than 300 rows."""
    waiting, merges, log_phi, below = list(range(leaves)), [], [0.0] * leaves, [1] * leaves
    while len(waiting) > 1:
        following = []
        for a, b in zip(waiting[::2], waiting[1::2]):
            merges.append((a, b))
            below.append(below[a] + below[b])
            # One cluster is worth more than all ways to part it up to 300 rows, and less beyond.
            log_phi.append(below[-1] * np.log(below[-1]) if below[-1] < 300 else 0.0)
            following.append(len(below) - 1)
        waiting = following + waiting[len(waiting) // 2 * 2 :]
    return Tree.from_merges(merges, np.ones(leaves, dtype=np.int64), log_phi)


def test_the_slider_recolours_tree_table_and_projection(browser: Any, tmp_path: Path) -> None:
    data = nested_creatures(180)
    model = dtree.TreeClustering(random_state=0).fit(data.X)
    page, complaints = _open(browser, dtree.report(model, tmp_path / "page.html", data.row_names, X=data.X))

    def shown() -> tuple[int, int, int]:
        """Clusters in the table, among the points and in the tree."""
        rows = page.locator("#clusters [data-level]:not([hidden]) tbody tr").count()
        points = page.eval_on_selector_all(".point", "all => new Set(all.map(p => p.getAttribute('class'))).size")
        marks = page.eval_on_selector_all(
            "#tree-view .mark",
            "all => new Set(all.map(p => p.getAttribute('class')).filter(c => !c.includes('k-1'))).size",
        )
        return rows, points, marks

    assert shown() == (9, 9, 9)
    assert "9 clusters" in page.inner_text("#level-text")
    levels = model.levels_["n_clusters"].tolist()
    page.eval_on_selector("#level", "(e, v) => { e.value = v; e.dispatchEvent(new Event('input')); }", levels.index(3))
    assert shown() == (3, 3, 3)
    assert "3 clusters" in page.inner_text("#level-text")
    page.click("#level-back")
    assert shown() == (9, 9, 9)
    assert complaints == []
