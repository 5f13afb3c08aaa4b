#!/usr/bin/env python3
"""Makes the pictures of docs/picture.md anew, of the page as it is now: usage pictures.py --stowage=TOOL [--only=NAME]."""

import argparse
import subprocess
import tempfile
from pathlib import Path

from page import Page, open_browser

ROOT = Path(__file__).resolve().parents[2]
SIZE = {"width": 1400, "height": 840, "deviceScaleFactor": 1, "mobile": False}
MOST_BYTES = 300 * 1024


def digits(folder: Path) -> Path:
    return ROOT / "models" / "digits_cnn.onnx"


def resnet50(folder: Path) -> Path:
    path = folder / "resnet50.onnx"
    subprocess.run(["/usr/bin/python3", ROOT / "models" / "build.py", "resnet50", "-o", path, "--weights=none"], check=True)
    return path


# Name, model, flags of `stowage plan`, and what is done on the page.
PICTURES = [
    ("map", digits, ["--memory-budget=65%", "--optimizer=adamw:lr=1e-3", "--target-cpu=x86-64-v3"], []),
    ("modules", resnet50, ["--batch=32", "--memory-budget=60%", "--optimizer=sgd:lr=0.1,momentum=0.9", "--target-cpu=x86-64-v3"],
     ["document.querySelector('#theme').click()",
      "(() => { const m = document.querySelector('#mode'); m.value = 'module'; m.dispatchEvent(new Event('change')); })()",
      "stowage.app.select(stowage.app.find('/layer1/layer1.0/conv1/Conv'))"]),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stowage", type=Path, required=True)
    parser.add_argument("--only", choices=[name for name, *_ in PICTURES])
    arguments = parser.parse_args()
    browser = open_browser()
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", SIZE)
    try:
        with tempfile.TemporaryDirectory() as name:
            for title, model, flags, actions in PICTURES:
                if arguments.only not in (None, title):
                    continue
                html, picture = Path(name) / f"{title}.html", ROOT / "docs" / f"picture-{title}.png"
                subprocess.run([arguments.stowage.resolve(), "plan", model(Path(name)), *flags, "--threads=2", "--format=html", "-o", html], check=True)
                page = Page(browser, html)
                for action in actions:
                    browser.execute_script(action)
                page.drawn()
                if problems := page.problems():
                    raise SystemExit(f"{title}: {problems}")
                browser.save_screenshot(str(picture))
                size = picture.stat().st_size
                print(f"{picture}: {size:,} bytes", flush=True)
                if size >= MOST_BYTES:
                    raise SystemExit(f"{picture} has {size:,} bytes; at most {MOST_BYTES:,} are kept")
    finally:
        browser.quit()


if __name__ == "__main__":
    main()
