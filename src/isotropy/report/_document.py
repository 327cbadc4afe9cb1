"""A whole HTML document: its head, and what a screen reader and a keyboard need."""

from __future__ import annotations

from html import escape
from pathlib import Path

from isotropy._run import atomic_write
from isotropy.report._page_style import PAGE_STYLE
from isotropy.report._plots import Plots


def document(title: str, header: str, main: str, plots: Plots) -> str:
    """One page that needs nothing else.

    Example:
        >>> page = document("a page", "<h1>a page</h1>", "<p>words</p>", Plots())
        >>> "<script" in page, "script-src 'none'" in page
        (False, True)
    """
    scripts, policy = plots.scripts()
    return (
        "<!DOCTYPE html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
        f"<title>{escape(title)}</title>\n<style>{PAGE_STYLE}</style>\n</head>\n<body>\n"
        "<a class='skip' href='#answer'>Skip to the content</a>\n"
        f"<header>\n{header}\n</header>\n<main id='answer' tabindex='-1'>\n{main}\n</main>\n"
        f"{scripts}</body>\n</html>\n"
    )


def write_document(page: str, path: str | Path) -> Path:
    """Write a page to a file that ends in .html, whole or not at all."""
    path = html_path(path)
    with atomic_write(path, "w") as file:
        file.write(page)
    return path


def html_path(path: str | Path) -> Path:
    """A path that ends in .html.

    Raises:
        ValueError: If it does not.

    Example:
        >>> html_path("page.html").name
        'page.html'
    """
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"expected a page file that ends in .html, got {str(path)!r}")
    return path
