"""What everybody needs of a page: nothing that axe-core calls moderate or worse, no scrolling sideways."""

from typing import Any

import pytest

SIZES = [(1440, 900), (768, 1024), (360, 780)]


def findings(page: Any) -> list[str]:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    found = axe.run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}).response
    return [
        f"{entry['impact']}: {entry['help']}: {node['html'][:200]} {node.get('failureSummary', '')}"
        for entry in found["violations"]
        for node in entry["nodes"]
        if entry["impact"] in ("moderate", "serious", "critical")
    ]


def scrolls_sideways(page: Any) -> int:
    """By how many pixels the page is wider than its window."""
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
