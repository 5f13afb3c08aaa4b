#!/usr/bin/env python3
"""Makes the page that `--format=html` fills in: one HTML file with its script and style inside.

  viewer/build.py page.html            the page, with a place for the data
  viewer/build.py page.html Page.cpp   and the same as C++: const char stow::picturePage[], with its size

esbuild (Debian's package, or one on PATH) bundles and minifies; the same sources give the same bytes.
"""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ESBUILD = ["--log-level=warning", "--minify", "--charset=utf8", "--legal-comments=none"]


def bundled(source: str, *flags: str) -> str:
    command = ["esbuild", str(HERE / source), "--bundle", *ESBUILD, *flags]
    try:
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, encoding="utf-8").stdout.strip()
    except FileNotFoundError:
        raise SystemExit("build.py: esbuild is missing; scripts/install.sh build installs it")
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"build.py: esbuild refused {source} (exit code {error.returncode})")


def make_page() -> str:
    """The template with style and script put in. What they contain must not end their elements."""
    page = (HERE / "index.html").read_text(encoding="utf-8")
    parts = {"STYLE": bundled("style.css"), "SCRIPT": bundled("src/main.ts", "--format=iife", "--target=es2022")}
    for name, text in parts.items():
        if f"</{name.lower()}" in text.lower():
            raise SystemExit(f"build.py: the {name.lower()} would end its own element")
        place = f"/*{name}*/"
        if page.count(place) != 1:
            raise SystemExit(f"build.py: index.html has {page.count(place)} places {place}; expected 1")
        page = page.replace(place, text)
    if page.count("<!--DATA-->") != 1:
        raise SystemExit("build.py: index.html needs one place <!--DATA-->")
    return page


def as_cpp(page: str) -> str:
    data = page.encode("utf-8")
    lines = [", ".join(map(str, data[i:i + 24])) for i in range(0, len(data), 24)]
    return ("// Written by viewer/build.py.\n#include <cstddef>\n\nnamespace stow {\n"
            "extern const unsigned char picturePage[];\nextern const std::size_t picturePageSize;\n"
            "const unsigned char picturePage[] = {\n" + ",\n".join(lines) + "};\n"
            f"const std::size_t picturePageSize = {len(data)};\n}} // namespace stow\n")


def main() -> None:
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    page = make_page()
    Path(sys.argv[1]).write_text(page, encoding="utf-8")
    if len(sys.argv) == 3:
        Path(sys.argv[2]).write_text(as_cpp(page), encoding="utf-8")


if __name__ == "__main__":
    main()
