"""Complete the documentation site for MkDocs: API pages, project files as pages, and no request to another host.

MkDocs calls the `on_*` functions; mkdocs.yml names this file under `hooks`. `python scripts/docs_site.py SITE` checks
a built site for assets of other hosts. Leaves out: the prose, which is in docs/.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

API = ("playproof", "playproof.crash", "playproof.game", "playproof.datasets", "playproof.store", "playproof.policies")
"""The modules of the public surface, in the order of the menu. This is the only list of them."""

SHADOWED = {"playproof.datasets": ("playproof.datasets.build.build",)}
"""Public functions that share their name with a submodule, which hides them from Griffe; by module."""

INCLUDE = re.compile(r"^<!-- include: (\S+) -->$", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)")
OUTSIDE = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed|object)\b[^>]*\b(?:src|data)=["']?(?:https?:)?//[^\s"'>]+"""
    r"""|<link\b(?=[^>]*rel=["']?(?:stylesheet|preconnect|dns-prefetch|preload|prefetch|icon|manifest))"""
    r"""[^>]*href=["']?(?:https?:)?//[^\s"'>]+"""
    r"""|@import\s+["']?(?:https?:)?//[^\s"';)]+|url\(["']?(?:https?:)?//[^\s"')]+"""
    r"""|https?://(?:unpkg\.com|cdn\.|fonts\.|cdnjs\.|api\.github\.com)[^\s"'`)]*""",
    re.IGNORECASE,
)


def api_page(module: str) -> str:
    """Give the path of a module's page below docs/."""
    return f"reference/api/{module}.md"


def on_config(config: Any) -> Any:
    """Add the API pages to the menu, below Reference."""
    (reference,) = (section["Reference"] for section in config["nav"] if "Reference" in section)
    reference.append({"Python API": [{module: api_page(module)} for module in API]})
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add one page for each public module."""
    from mkdocs.structure.files import File

    for module in API:
        text = f"# {module}\n\n::: {module}\n"
        for name in SHADOWED.get(module, ()):
            text += f"\n::: {name}\n    options:\n      show_root_heading: true\n      show_root_toc_entry: true\n"
        files.append(File.generated(config, api_page(module), content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replace `<!-- include: FILE -->` by the project's file, and the marks of the API list by links."""
    here = Path(page.file.src_uri).parent
    listed = "\n".join(f"- [`{module}`]({os.path.relpath(api_page(module), here)})" for module in API)
    markdown = markdown.replace("<!-- api pages -->", listed)
    return INCLUDE.sub(lambda match: _included(match[1], here), markdown)


def _included(name: str, here: Path) -> str:
    """Give a file of the project root with its links as they are from the page that shows it."""

    def moved(link: re.Match[str]) -> str:
        target, anchor = link[1], link[2] or ""
        if target.startswith("docs/"):
            return f"]({os.path.relpath(target.removeprefix('docs/'), here)}{anchor})"
        if target in SHOWN:
            return f"]({os.path.relpath(SHOWN[target], here)}{anchor})"
        # A file outside of docs/ is not part of the site: keep the link's words and drop its target.
        return "]" if (ROOT / target).exists() else link[0]

    return LINK.sub(moved, (ROOT / name).read_text(encoding="utf-8"))


SHOWN = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "dev/architecture.md",
    "CHANGELOG.md": "dev/changelog.md",
    "CONTRIBUTING.md": "dev/contributing.md",
    "SECURITY.md": "dev/security.md",
}
"""Files of the project root that the site shows, and the page of each."""


def on_post_build(config: Any) -> None:
    """Take the addresses of CDNs out of the theme's scripts.

    They load a diagram library and a worker for file:// pages; this site needs neither.
    """
    for script in Path(config["site_dir"]).rglob("*.js"):
        text = script.read_text(encoding="utf-8")
        local = re.sub(r"https://(?:unpkg\.com|api\.github\.com)/", "/absent/", text)
        if local != text:
            script.write_text(local, encoding="utf-8")


def outside_assets(site: Path) -> list[str]:
    """List what a built site would load from another host."""
    results = []
    for path in sorted(site.rglob("*")):
        if path.suffix in (".html", ".css", ".js", ".svg"):
            text = path.read_text(encoding="utf-8")
            results += [f"{path.relative_to(site)}: {match[0][:200]}" for match in OUTSIDE.finditer(text)]
    return results


def missing_names(site: Path) -> list[str]:
    """List public names that their module's page lacks."""
    missing = []
    for module in API:
        text = (site / "reference" / "api" / f"{module}.html").read_text(encoding="utf-8")
        headings = set(re.findall(r'id="([^"]+)"', text))
        known = headings | {
            f"{module}.{name.rpartition('.')[2]}" for name in SHADOWED.get(module, ()) if name in headings
        }
        names = [name for name in importlib.import_module(module).__all__ if not name.startswith("__")]
        missing += [f"{module}.{name}" for name in names if f"{module}.{name}" not in known]
    return missing


def main() -> None:
    """Check a built site. Exit code 1: it would load something from another host, or its API is not whole."""
    site = Path(sys.argv[1])
    if outside := outside_assets(site):
        sys.exit("expected a site that loads nothing from other hosts, found:\n" + "\n".join(outside))
    if missing := missing_names(site):
        sys.exit("expected every public name on the API pages, missing:\n" + "\n".join(missing))
    sys.stdout.write("the site loads nothing from other hosts and has every public name\n")


if __name__ == "__main__":
    main()
