#!/usr/bin/env python3
"""Opens pages of `--format=html` in headless Chromium: usage browser.py --stowage=TOOL --work=FOLDER [--whole] [--keep-pictures].

A small network and one whose names are hostile, or with --whole a step of 20,160 commands, a ResNet-18 and a GPT-2; what is drawn,
hover, search, keys, colours, no message on the console, no request, times and sizes. Skipped (77) where Chromium, its driver or
Selenium is missing; scripts/install.sh installs them. --keep-pictures leaves a screenshot of every page in FOLDER.
"""

import argparse
import json
import math
import re
import shutil
import subprocess
import sys
from pathlib import Path

from lanes import check_lanes, plan_that_travels
from page import Page, expect, kinds_of_aliases, missing_parts, open_browser

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent

# Of processor time, so that other work does not count, and a multiple of what is printed where they are measured.
MOST_OPENING_MS, MOST_FRAME_MS, MOST_BYTES = 5000, 100, 5_000_000


class Pages:
    def __init__(self, tool: Path, work: Path, keep_pictures: bool) -> None:
        self.tool, self.work, self.keep_pictures = tool, work, keep_pictures
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        self.browser = open_browser()

    def run(self, *words) -> None:
        subprocess.run([self.tool, *map(str, words)], check=True, stdout=subprocess.DEVNULL, timeout=600)

    def model(self, name: str, *words) -> Path:
        path = self.work / f"{name}.onnx"
        subprocess.run(["/usr/bin/python3", ROOT / "models" / "build.py", name, "-o", path, "--weights=none", *words], check=True,
                       stdout=subprocess.DEVNULL, timeout=600)
        return path

    def fabricated(self, kind: str) -> Path:
        path = self.work / f"{kind}.json"
        subprocess.run([sys.executable, HERE / "make_plan.py", kind, path], check=True)
        return path

    def open(self, path: Path) -> Page:
        page = Page(self.browser, path)
        expect(page.js("stowage.errors.length") == 0, f"{path.name}: {page.js('stowage.errors')}")
        return page

    def close(self, page: Page) -> None:
        """What holds of every page when it has been used."""
        if self.keep_pictures:
            self.browser.save_screenshot(str(page.path.with_suffix(".png")))
        problems, requests = page.problems(), page.requests()
        expect(not problems, f"{page.path.name}: on the console: {problems}")
        expect(not requests, f"{page.path.name}: asked for {requests}")
        size = page.path.stat().st_size
        print(f"{page.path.name}: {size:,} bytes, opened in {page.opening_ms:.0f} ms of processor time", flush=True)
        expect(0 < page.opening_ms < MOST_OPENING_MS, f"{page.path.name}: opened in {page.opening_ms} ms of processor time")
        expect(size < MOST_BYTES, f"{page.path.name}: {size} bytes")


def check_against_plan(page: Page, plan: dict) -> None:
    """What the page says of the plan is what the plan's JSON says."""
    state = page.drawn()
    graph = plan["graphs"][0]
    buffers = plan["buffers"]
    expect(state["buffers"] == len(buffers), f"{state['buffers']} buffers, the plan has {len(buffers)}")
    expect(state["steps"] == graph["step_count"], f"{state['steps']} steps, the plan has {graph['step_count']}")
    expect(state["instant"] == graph["peak_step"], f"opens at step {state['instant']}, the peak is {graph['peak_step']}")
    drawn = state["map"]["rectangles"] + state["map"]["aggregated"]
    expect(drawn == sum(b["size"] > 0 for b in buffers), f"{drawn} buffers drawn of {len(buffers)}")
    live = [b for b in buffers if b["begin"] <= graph["peak_step"] < b["end"]]
    counts, more = page.js("[...document.querySelectorAll('#live tbody tr')].map((row) => Number(row.dataset.count))"), page.js("document.querySelector('#live > button').hidden")
    expect(state["rows"] == len(counts) and (sum(counts) == len(live) if more else len(counts) == 150), f"rows of {sum(counts)} of {len(live)} live buffers")
    expect(f"in {len(live):,} buffers" in page.text("#live-step"), page.text("#live-step"))
    shown = page.js("[...document.querySelectorAll('#live tbody tr')].map((row) => [row.cells[2].title, Number(row.dataset.buffer), Number(row.dataset.count)])")
    sizes = [count * buffers[i]["size"] for _, i, count in shown]
    for (title, _, count), size in zip(shown, sizes):
        expect(title.startswith(f"{size:,} bytes, " + (f"{count} \u00d7 {size // count:,}" if count > 1 else "")), f"a row says {title}; expected {size:,} bytes")
    expect(sizes == sorted(sizes, reverse=True) and (not more or sum(sizes) == sum(b["size"] for b in live)), f"rows of {sizes}")
    expect(page.js("document.title").startswith(plan["model"][:20]), page.js("document.title"))


PARTS = {"parameters": "parameters", "frozen weights": "frozen", "weights, fetched": "fetched_weight",
         "optimizer, fetched": "fetched_optimizer", "data set": "data_set", "statistics": "statistics", "optimizer": "optimizer", "sums of gradients": "accumulators",
         "gradients": "gradients", "activations": "activations", "workspace of library calls": "workspace", "inputs": "inputs",
         "outputs": "outputs", "padding of layouts": "layout_padding", "alignment and gaps": "padding"}


def check_overview(page: Page, plan: dict) -> None:
    """Where no buffer is chosen stands the plan: a sum that closes, what is computed twice, and what is cheapest to less."""
    rows = page.js("[...document.querySelectorAll('#sums tr')].map((row) => [row.cells[0].textContent, row.cells[1].title])")
    shown = {name: int(title.split(" byte")[0].replace(",", "")) for name, title in rows}
    parts = {name: shown[name] for name in PARTS if name in shown}
    expect(parts == {name: plan["breakdown"][key] for name, key in PARTS.items() if plan["breakdown"].get(key)}, f"the parts are {parts}")
    expect(sum(parts.values()) == shown["the arena"] == plan["arena_bytes"], f"{parts} do not add up to {plan['arena_bytes']}")
    outside = plan["outside_arena_bytes"]
    expect(shown.get("outside of it", 0) == outside, f"outside of it are {shown.get('outside of it')}, not {outside}")
    whole = plan["arena_bytes"] + outside if outside and plan.get("outside_note") else None
    expect(shown.get("the process") == whole, f"the process takes {shown.get('the process')}, not {whole}")
    said = page.text("#details")
    for words in [plan.get("outside_note", ""), *plan["notes"]]:
        expect(words in said or len(words) > 1000, f"the overview lacks {words}: {said}")
    bottom = page.js("[...document.querySelectorAll('#savings tbody tr, #remedies li')].slice(0, 1).map((e) => e.getBoundingClientRect().bottom)")
    end = page.js("document.querySelector('.details').getBoundingClientRect().bottom")
    expect(not bottom or 0 < min(bottom) and max(bottom) <= end, f"what could be smaller is seen only after scrolling: {bottom}, {end} are shown")
    graph = plan["graphs"][0]
    peak, again = graph["peak_step"], [step for step in graph["steps"] if "recomputes" in step]
    expect((f"Computed twice: {len(again):,} of" in said) == bool(again), f"{len(again)} commands run again: {said}")
    used = {b for step in graph["steps"][peak:peak + 1] for b in step["reads"] + step["writes"]}
    candidates = [b for i, b in enumerate(plan["buffers"]) if b["begin"] <= peak < b["end"] and b["size"] and i not in used
                  and not b["recomputed"] and "recompute_seconds" in b]
    candidates.sort(key=lambda b: b["recompute_seconds"] / b["size"])
    sizes = page.js("[...document.querySelectorAll('#savings tbody td:first-child')].map((cell) => cell.title)")
    for title, buffer in zip(sizes, candidates):
        expect(not title or title.startswith(f"{buffer['size']:,} bytes"), f"a way to less says {title}; expected {buffer['size']} bytes")
    expect(len(sizes) >= min(len(candidates), 5), f"{len(sizes)} ways to less for {len(candidates)} buffers")
    if again:
        page.element("#repeated tbody .link").click()
        selected = page.state()["selected"]
        expect(any(selected in step["writes"] for step in again), f"the first that is computed twice selects buffer {selected}")
        page.element("#map").send_keys("\ue00c")  # Escape
    expect(page.elements("#sums"), "Escape does not go back to the plan")


def check_evaluation(page: Page, plan: dict) -> None:
    """An evaluation's map has what stays in the arena without being used by it: an optimizer's state."""
    train, evaluation = plan["graphs"][:2]
    state = sum(b["size"] for b in plan["buffers"] if b["kind"] == "optimizer")
    expect(evaluation["name"] == "eval" and state > 0, "the plan has no optimizer")
    page.js("stowage.app.chooseGraph(1)")
    live = page.js("Math.max(...stowage.app.graph.live)")
    expect(live == evaluation["live_peak_bytes"] + state, f"{live} bytes are live during an evaluation")
    expect("optimizer" in page.drawn()["categories"], "the optimizer's state looks free during an evaluation")
    page.js("stowage.app.chooseGraph(0)")


ALWAYS = {"arena", "bound", "instant", "pointer", "chosen", "pointed", "dim", "phase"}


def check_key(page: Page, more: set[str], where: str = "#marks") -> None:
    """Under the map stands what its signs mean: those that it has."""
    signs = page.js("[...document.querySelectorAll(arguments[0] + ' > span')].map((e) => [e.dataset.sign, e.textContent, e.querySelectorAll('svg > *').length])", where)
    expect({sign for sign, _, _ in signs} == (ALWAYS if where == "#marks" else ALWAYS - {"pointer", "pointed", "dim"}) | more, f"the key has {signs}")
    expect(all(text and parts for _, text, parts in signs), f"a sign without words or a sample: {signs}")


def check_treemap(page: Page) -> None:
    """A module alone, and back."""
    whole = page.state()["treemap"]
    buffer = page.js("Array.from({length: stowage.app.graph.count}, (_, b) => b).find((b) => stowage.app.graph.modulePath(b).length && "
                     "stowage.app.graph.isLive(b, stowage.state().instant))")
    page.js("stowage.app.select(arguments[0], true)", buffer)
    page.element("#details dd .link.name").click()
    inside = page.drawn()["treemap"]
    expect(inside["path"] and inside["leaves"] < whole["leaves"], f"the treemap shows {inside}, all of it {whole}")
    page.element("#tree-path .link").click()
    expect(page.drawn()["treemap"] == whole, "'all' does not show everything")
    page.js("stowage.app.select(-1)")


def check_link(page: Page) -> None:
    """The address leads to what is looked at; what it names and is not there does no harm."""
    page.js("stowage.app.chooseGraph(1)")
    page.js("stowage.app.pin(1)")
    page.js("stowage.app.select(2)")
    page.wait("location.hash === '#graph=eval&step=1&buffer=2'")
    words, before = page.js("location.hash"), page.state()
    page.js("stowage.app.chooseGraph(0)")
    page.wait("!location.hash")
    page.js("location.hash = arguments[0]", words)
    page.wait("stowage.state().graph === 'eval'")
    after = page.state()
    expect(all(before[key] == after[key] for key in ("graph", "instant", "selected", "mode")), f"{words} leads to {after}")
    page.js("location.hash = '#plan=99&graph=<b>&step=99999999&buffer=99999999&color=nothing'")
    page.wait("stowage.state().graph === 'train'")
    expect(page.state()["selected"] < 0 and page.state()["mode"] == "kind", f"a wrong address leads to {page.state()}")
    page.js("stowage.app.chooseGraph(0)")
    page.wait("!location.hash")


def check_phone(page: Page) -> None:
    """A phone's window: nothing is cut off at the side, and a finger on the map can move the page."""
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True})
    page.drawn()
    expect(page.js("document.documentElement.scrollWidth") == 390, f"the page is {page.js('document.documentElement.scrollWidth')} pixels wide")
    wide = page.js("""[...document.querySelectorAll('button, select, input, th, td, canvas, svg, dd')].filter((e) => e.offsetParent !== null)
      .filter((e) => { const box = e.getBoundingClientRect(); return box.width && (box.right > 391 || box.left < -1); })
      .map((e) => e.outerHTML.slice(0, 80))""")
    expect(not wide, f"beyond the window's edge: {wide}")
    expect(page.js("getComputedStyle(document.querySelector('.map canvas')).touchAction") == "pan-y", "the map holds the finger")
    if page.state()["view"] == "map":
        touched = page.js("stowage.app.graph.liveAt(stowage.state().instant).find((b) => stowage.app.graph.kindOf(b) === 'activation')")
        page.js("document.querySelector('#map').scrollIntoView()")
        place = page.js("stowage.app.placeOf(arguments[0])", touched)
        page.browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
        page.browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [place]})
        page.browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        page.browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})
        name = page.js("stowage.app.graph.bufferName(arguments[0])", touched)
        expect(page.drawn()["selected"] == touched, f"a touch of {name} selects {page.state()['selectedName']}")
        expect(page.js("!document.querySelector('#tip').hidden") and name in page.text("#tip"), f"a touch of {name} says {page.text('#tip')}")
    page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    page.drawn()


def check_hover_and_selection(page: Page, plan: dict) -> None:
    graph = plan["graphs"][0]
    live = [i for i, b in enumerate(plan["buffers"]) if b["begin"] <= graph["peak_step"] < b["end"]
            and b["offset"] >= plan["persistent_bytes"]]
    largest = max(live, key=lambda i: plan["buffers"][i]["size"])
    buffer = plan["buffers"][largest]
    page.pointer(page.js("stowage.app.placeOf(arguments[0])", largest))
    tip = page.text("#tip")
    expect(buffer["name"] in tip or len(buffer["name"]) > 80, f"hovering over {buffer['name']} says {tip}")
    expect(f"commands {buffer['begin']:,} to {buffer['end'] - 1:,}" in tip, tip)
    page.pointer(page.js("stowage.app.placeOf(arguments[0])", largest), click=True)
    expect(page.state()["selected"] == largest, f"a click selects {page.state()['selected']}, not {largest}")
    details = page.text("#details")
    for words in (f"{buffer['size']:,} bytes", f"{buffer['offset']:,} bytes", buffer["dtype"], "x".join(map(str, buffer["shape"]))):
        expect(words in details, f"the details of {buffer['name']} lack {words}: {details}")
    expect(page.elements("#live tr[aria-selected=true]"), "the selected buffer's row is not marked")
    # The row under the pointer is outlined on the map.
    row = page.js("(({x, y}) => ({x: x + 20, y: y + 10}))(document.querySelector('#live tbody tr:nth-child(2)').getBoundingClientRect())")
    page.pointer(row)
    pointed, (first, count) = page.state()["pointed"], page.js("(({buffer, count}) => [Number(buffer), Number(count)])(document.querySelector('#live tbody tr:nth-child(2)').dataset)")
    expect(pointed[0] == first and len(pointed) == count, f"{pointed} are outlined of a row of {count}, the first {first}")
    # What it is there for: used by the command at the peak, or the first later one that reads it.
    peak, readers = graph["peak_step"], [t for t, step in enumerate(graph["steps"]) if largest in step["reads"]]
    is_used = largest in graph["steps"][peak]["reads"] + graph["steps"][peak]["writes"]
    later = next((t for t in readers if t > peak), None)
    words = "by the command at the peak" if is_used else "" if later is None else f"Waitsat the peak, for {later:,}  "
    expect(words in page.text("#details"), f"the details lack '{words}': {page.text('#details')}")
    # Another instant: the curve pins it, P goes back.
    page.pointer(page.js("stowage.app.placeOfStep(0)"), click=True)
    expect(page.state()["instant"] == 0, "a click on the curve's left end does not go to step 0")
    at_start = sum(b["begin"] <= 0 < b["end"] for b in plan["buffers"])
    expect(f"in {at_start:,} buffers" in page.text("#live-step"), page.text("#live-step"))
    page.element("#map").send_keys("p")
    expect(page.state()["instant"] == graph["peak_step"], "P does not go to the peak")


def check_zoom(page: Page) -> None:
    whole = page.drawn()["map"]["steps"]
    canvas = page.element("#map")
    canvas.send_keys("+++++")
    near = page.drawn()["map"]["steps"]
    expect(near["high"] - near["low"] < 0.5 * (whole["high"] - whole["low"]), f"plus does not zoom: {whole} to {near}")
    page.browser.execute_script("document.querySelector('#map').dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true}))")
    moved = page.drawn()["map"]["steps"]
    expect(moved["low"] > near["low"], f"the right arrow does not move: {near} to {moved}")
    page.browser.execute_script("for (let i = 0; i < 60; ++i) document.querySelector('#map').dispatchEvent("
                                "new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true}))")
    canvas.send_keys("p")
    state = page.drawn()
    shown = state["map"]["steps"]
    expect(shown["low"] <= state["instant"] < shown["high"], f"P shows {shown}, the peak is {state['instant']}")
    canvas.send_keys("0")
    expect(page.drawn()["map"]["steps"] == whole, "0 does not show the whole plan")


def check_search(page: Page, plan: dict, pattern: str) -> None:
    labels = page.js("Array.from({length: stowage.app.graph.count}, (_, b) => stowage.app.graph.label(b))")

    def matches(buffer: dict, label: str) -> bool:
        module = plan["strings"][buffer["module"]] if "module" in buffer else ""
        texts = [buffer["name"], buffer["source"], *buffer["aliases"], module, label]
        return any(re.search(pattern, text, re.I) for text in texts)

    expected = sum(map(matches, plan["buffers"], labels))
    page.element("#map").send_keys("/")
    page.keys(pattern)
    state = page.drawn()
    expect(state["matches"] == expected > 0, f"{pattern} finds {state['matches']}, expected {expected}")
    live, found = ([i for i, b in enumerate(plan["buffers"]) if b["begin"] <= state["instant"] < b["end"] and (not only or matches(b, labels[i]))] for only in (False, True))
    dimmed, leaves = state["treemap"]["dimmed"], state["treemap"]["leaves"]
    expect(leaves - len(found) <= dimmed <= len(live) - len(found) and (dimmed > 0) == (len(live) > len(found)),
           f"{dimmed} of {leaves} areas of the treemap are dimmed, {len(found)} of {len(live)} live buffers match")
    page.keys("\ue007")  # Enter: the largest match
    expect(page.state()["selected"] >= 0, "Enter selects no match")
    box = page.element("#search")
    box.clear()
    box.send_keys("(")
    expect("no regular expression" in page.text("#found"), page.text("#found"))
    box.clear()
    box.send_keys("\ue00c")  # Escape


def check_colors(page: Page) -> None:
    for mode in ("module", "dtype", "cost", "kind"):
        page.browser.execute_script("const m = document.querySelector('#mode'); m.value = arguments[0]; m.dispatchEvent(new Event('change'))", mode)
        state = page.drawn()
        expect(state["mode"] == mode and state["categories"], f"colouring by {mode}: {state['categories']}")
    expect("activation" in state["categories"], f"kinds are {state['categories']}")
    # The canvas has the colours it says: the first legend entry's colour is among its pixels.
    found = page.js("""(() => {
      const wanted = getComputedStyle(document.querySelector('#legend .swatch')).backgroundColor.match(/\\d+/g).slice(0, 3).join();
      const canvas = document.querySelector('#map');
      const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
      let count = 0;
      for (let i = 0; i < data.length; i += 4) if (`${data[i]},${data[i + 1]},${data[i + 2]}` === wanted) ++count;
      return count; })()""")
    expect(found > 100, f"{found} pixels of the map have the colour of the first legend entry")


def check_theme(page: Page) -> None:
    before = page.state()["theme"]
    page.element("#theme").click()
    expect(page.state()["theme"] != before, "the theme does not change")
    background = page.js("getComputedStyle(document.body).backgroundColor")
    page.element("#theme").click()
    expect(page.js("getComputedStyle(document.body).backgroundColor") != background, "both themes have one background")


def check_markup(page: Page) -> None:
    """What can be operated is a control with a name."""
    nameless = page.js("""[...document.querySelectorAll('button, select, input')].filter((e) => e.offsetParent !== null &&
      !e.textContent.trim() && !e.getAttribute('aria-label') && !e.labels?.length).map((e) => e.outerHTML.slice(0, 80))""")
    expect(not nameless, f"controls without a name: {nameless}")
    expect(page.js("document.documentElement.lang") == "en", "the page has no language")


def check_frames(page: Page) -> None:
    """Panning: every frame is drawn well within its time, also at 20,000 buffers."""
    before = page.processor_ms()
    page.browser.execute_async_script("""
      const done = arguments[0];
      let frames = 0;
      const key = (name) => document.querySelector('#map').dispatchEvent(new KeyboardEvent('keydown', {key: name, bubbles: true}));
      for (let i = 0; i < 4; ++i) key('+');
      const next = () => {
        if (++frames === 60) { key('0'); done(); return; }
        key(frames % 2 ? 'ArrowRight' : 'ArrowLeft');
        requestAnimationFrame(() => requestAnimationFrame(next));
      };
      next();""")
    frame = (page.processor_ms() - before) / 60
    print(f"{page.path.name}: a frame of panning takes {frame:.1f} ms of processor time", flush=True)
    expect(0 < frame < MOST_FRAME_MS, f"a frame takes {frame} ms of processor time")


def check_model(pages: Pages, name: str, model: Path, pattern: str, *words) -> None:
    """Both ways to a page of a model give the same bytes; all checks of a plan."""
    html, planned = pages.work / f"{name}.html", pages.work / f"{name}.json"
    pages.run("plan", model, *words, "--threads=1", "--format=json", "-o", planned)
    pages.run("inspect", planned, "--format=html", "-o", html)
    plan = json.loads(planned.read_text())
    page = pages.open(html)
    check_against_plan(page, plan)
    check_overview(page, plan)
    check_key(page, {*kinds_of_aliases(plan), *({"hatch", "link"} if any(b["recomputed"] for b in plan["buffers"]) else {})})
    check_evaluation(page, plan)
    check_treemap(page)
    check_hover_and_selection(page, plan)
    check_zoom(page)
    check_search(page, plan, pattern)
    check_colors(page)
    check_link(page)
    check_theme(page)
    check_markup(page)
    check_phone(page)
    check_frames(page)
    pages.close(page)


def small_network(pages: Pages) -> None:
    check_model(pages, "digits", ROOT / "models" / "digits_cnn.onnx", "conv[12].*", "--memory-budget=65%",
                "--optimizer=adamw:lr=1e-3")
    again = pages.work / "again.html"
    pages.run("inspect", ROOT / "models" / "digits_cnn.onnx", "--memory-budget=65%", "--optimizer=adamw:lr=1e-3", "--threads=1",
              "--format=html", "-o", again)
    page = pages.open(again)
    expect(page.drawn()["map"]["card"] is None and "card" not in page.text("#figures"), f"a card where none is known: {page.state()['map']['card']}")
    expect(again.read_bytes() == (pages.work / "digits.html").read_bytes(), "inspect of a model and of its plan differ")


def shared_storage(pages: Pages) -> None:
    """What lies in a buffer beside its first value is marked as what it is, on the map and in the details."""
    html, planned = pages.work / "shared.html", pages.work / "shared.json"
    pages.run("plan", ROOT / "tests" / "compiler" / "alias-kinds.mlir", "--loss=mse", "--optimizer=sgd:lr=0.1", "--threads=1",
              "--format=json", "-o", planned)
    pages.run("inspect", planned, "--format=html", "-o", html)
    plan = json.loads(planned.read_text())
    page = pages.open(html)
    marks = {kind: 0 for kind in ("in_place", "part", "view")}
    for buffer in plan["buffers"]:
        pairs = {*zip(buffer.get("alias_kinds", []), buffer.get("alias_steps", []))}
        for kind, step in pairs:
            expect(step == -1 or buffer["begin"] <= step < buffer["end"], f"{buffer['name']}: {kind} at step {step}")
            marks[kind] += step >= 0
    expect(min(marks.values()) > 0, f"the network shows {marks}; expected all three kinds")
    expect(page.drawn()["map"]["marks"] == marks, f"{page.drawn()['map']['marks']} are marked; expected {marks}")
    check_key(page, {"in_place", "part", "view"})
    joined = next(i for i, b in enumerate(plan["buffers"]) if "part" in b.get("alias_kinds", []))
    page.pointer(page.js("stowage.app.placeOf(arguments[0])", joined), click=True)
    details = page.text("#details")
    for words in ("a part of it, written at", "a view of it, first read at", "written over it at"):
        expect(words in details, f"the details of a joined tensor lack '{words}': {details}")
    pages.close(page)


def resnet18(pages: Pages) -> None:
    check_model(pages, "resnet18", pages.model("resnet18"), "layer3.*conv2", "--batch=32", "--checkpoint=sqrt",
                "--optimizer=sgd:lr=0.1,momentum=0.9")


def gpt2(pages: Pages) -> None:
    check_model(pages, "gpt2", pages.model("gpt2", "--batch=2"), "attn|mlp", "--optimizer=adamw:lr=1e-3")


def long_step(pages: Pages) -> None:
    """More buffers than pixels."""
    source, html = pages.fabricated("long"), pages.work / "long.html"
    pages.run("inspect", source, "--format=html", "-o", html)
    plan = json.loads(source.read_text())
    page = pages.open(html)
    check_against_plan(page, plan)
    state = page.state()["map"]
    expect(state["aggregated"] > 15000, f"{state['aggregated']} buffers are summed in pixels")
    clone = next(i for i, b in enumerate(plan["buffers"]) if b["recomputed"])
    page.js("stowage.app.select(arguments[0], true)", clone)
    page.element("#details .actions button").click()
    state = page.drawn()["map"]
    expect(0 < state["rectangles"] < 2000, f"{state['rectangles']} rectangles near one buffer")
    check_zoom_out(page)
    check_search(page, plan, "^/block7/op5/")
    check_frames(page)
    pages.close(page)


def check_zoom_out(page: Page) -> None:
    page.element("#zoom-reset").click()
    expect(page.drawn()["map"]["rectangles"] < 100, "the whole plan is not drawn from sums")


def hostile_names(pages: Pages) -> None:
    """Names are text, whatever is in them."""
    source, html = pages.fabricated("hostile"), pages.work / "hostile.html"
    pages.run("inspect", source, "--format=html", "-o", html)
    plan = json.loads(source.read_text())
    page = pages.open(html)
    check_overview(page, plan)
    elements = page.js("document.querySelectorAll('*').length")
    for i, buffer in enumerate(plan["buffers"]):
        page.js("stowage.app.select(arguments[0], true)", i)
        page.pointer(page.js("stowage.app.placeOf(arguments[0])", i))
        shown = page.text("#details h3")
        expect(len(shown) < 400, f"buffer {i} has a title of {len(shown)} characters")
        expect(not re.search("[\\x00-\\x1f\\u202a-\\u202e]", shown), f"a title holds control characters: {shown!r}")
        if buffer["name"].startswith("<") and len(buffer["name"]) < 120:
            expect(buffer["name"] in shown, f"{buffer['name']} is shown as {shown}")
    inside = page.js("document.querySelectorAll('#details :is(script, img, svg, b, i, u, a, o), #live :is(script, img, svg, b, i, u, a), "
                     "header :is(script, img), #tip :is(script, img, svg, b)').length")
    expect(inside == 0, f"{inside} elements came out of names")
    longest = max(range(len(plan["buffers"])), key=lambda i: len(plan["buffers"][i]["name"]))
    page.js("stowage.app.select(arguments[0], true)", longest)
    page.element("#details h3 button").click()
    expect(plan["buffers"][longest]["name"] in page.text("#details h3"), "the whole name is not shown on demand")
    page.js("stowage.app.select(-1)")
    expect(page.js("document.querySelectorAll('*').length") < elements + 50, "the page grows")
    pages.close(page)


UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def check_chart(page: Page) -> None:
    """The chart fills its place, also when the window changes, and its axis has round bytes at equal distances."""
    for width, height in ((1440, 900), (1100, 700)):
        page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        page.drawn()
        box, table = (page.js(f"(({{x, y, width, height}}) => ({{x, y, width, height}}))(document.querySelector('{what}').getBoundingClientRect())")
                      for what in (".chart svg", "#view-frontier .points"))
        expect(height - 30 < box["y"] + box["height"] <= height, f"the chart ends at {box} of a window of {width} x {height}")
        expect(box["x"] < 30 and 0 < table["x"] - box["x"] - box["width"] < 40, f"the chart is {box}, the table beside it {table}")
        drawn = page.js("document.querySelector('.chart svg').viewBox.baseVal.width")
        expect(abs(drawn - box["width"]) <= 1, f"the chart is drawn for {drawn} pixels and shown in {box['width']}")
        marks = [text for text in page.js("[...document.querySelectorAll('.chart text')].map((e) => e.textContent)") if text.split()[-1] in UNITS
                 and not text.startswith("no plan")]
        values = [float(text.split()[0].replace(",", "")) * UNITS[text.split()[1]] for text in marks]
        step = values[1] - values[0]
        expect(len(values) > 2 and all(b - a == step for a, b in zip(values, values[1:])), f"the axis has {marks}")
        expect(step == 2 ** round(math.log2(step)) and values[0] % step == 0, f"the axis goes by {step} bytes: {marks}")
    page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    page.drawn()


def frontier(pages: Pages) -> None:
    """A frontier's page has every point's plan; picking one shows its map."""
    html, table = pages.work / "frontier.html", pages.work / "frontier.csv"
    words = (ROOT / "tests/compiler/import/networks/residual_train_14.onnx", "--batch=16", "--loss=mse", "--threads=1", "--step=5")
    pages.run("frontier", *words, "--format=csv", "-o", table)
    rows = [dict(zip(table.read_text().splitlines()[0].split(","), line.split(","))) for line in table.read_text().splitlines()[1:]]
    # What the process takes leaves as many bytes of the card as lie between the first and the second point.
    room = (int(rows[0]["arena_bytes"]) + int(rows[1]["arena_bytes"])) // 2
    pages.run("frontier", *words, "--card=1GiB", f"--outside={2**30 // 64 * 63 - 2**29 - room}", "--format=html", "-o", html)
    page = pages.open(html)
    state = page.state()
    expect(state["view"] == "frontier", f"a frontier opens as {state['view']}")
    expect(state["frontier"]["points"] == len(rows) > 2, f"{state['frontier']['points']} points for {len(rows)} rows")
    labels = page.js("[...document.querySelectorAll('#view-frontier circle')].map((dot) => dot.getAttribute('aria-label'))")
    for row, label in zip(rows, labels):
        expect(f"{float(row['extra_time_percent']):.1f} %" in label, f"{label} for {row}")
    check_chart(page)
    line, first, second = (page.js("(({x, width}) => x + width / 2)(document.querySelectorAll('#view-frontier ' + arguments[0])[arguments[1]].getBBox())", what, i)
                           for what, i in (("#card", 0), ("circle", 0), ("circle", 1)))
    expect(second < line < first, f"the card's line is at {line}, the points at {first} and {second}")
    expect(f"{room / 1024:.1f} KiB for the arena" in page.text(".chart text.card"), page.text(".chart text.card"))
    over = page.js("[...document.querySelectorAll('#view-frontier tbody tr')].map((row) => row.className === 'over')")
    expect(over == [True] + [False] * (len(rows) - 1), f"too large for the card are {over}")
    expect("too much for card" in labels[0] and all("fits card" in label for label in labels[1:]), f"{labels}")
    band = page.js("document.querySelector('#bound').getBBox()")
    expect(band["width"] > 100 and band["height"] > 5, f"the proven bound is drawn as {band}")
    check_markup(page)
    last = len(rows) - 1
    box = page.js("(({x, y, width, height}) => ({x: x + width / 2, y: y + height / 2}))"
                  "(document.querySelectorAll('#view-frontier circle')[arguments[0]].getBoundingClientRect())", last)
    page.pointer(box, click=True)
    state = page.drawn()
    expect(state["view"] == "map" and state["plan"] == last, f"picking the last point shows {state['view']} of plan {state['plan']}")
    expect(page.js("stowage.app.currentPlan.summary.arena_bytes") == int(rows[last]["arena_bytes"]), "it is another plan")
    expect(state["map"]["rectangles"] > 10, f"its map has {state['map']['rectangles']} rectangles")
    expect("recomputed" in state["categories"], "the smallest plan recomputes nothing")
    # By keys: back to the tab, and the second point.
    page.element("#tab-frontier").click()
    page.js("document.querySelectorAll('#view-frontier circle')[1].focus()")
    page.keys("\ue007")
    expect(page.drawn()["plan"] == 1, "Enter on a point does not pick it")
    page.element("#tab-frontier").click()
    page.elements("#view-frontier tbody tr td:last-child button")[0].click()
    expect(page.drawn()["compare"]["plans"] == [0, 1], f"compare shows {page.state()['compare']}")
    page.element("#tab-frontier").click()
    check_phone(page)
    pages.close(page)


def compare(pages: Pages) -> None:
    """Differences are those that `stowage diff` finds, by code of its own."""
    model = ROOT / "models" / "digits_cnn.onnx"
    before, after, html = pages.work / "full.json", pages.work / "less.json", pages.work / "compare.html"
    pages.run("plan", model, "--threads=1", "--recompute=none", "--outside=64MiB", "--format=json", "-o", before)
    pages.run("plan", model, "--threads=1", "--memory-budget=60%", "--outside=64MiB", "--format=json", "-o", after)
    pages.run("diff", before, after, "--card=589MiB", "--format=html", "-o", html)
    told = json.loads(subprocess.run([pages.tool, "diff", before, after, "--format=json"], check=True, stdout=subprocess.PIPE).stdout)
    page = pages.open(html)
    state = page.drawn()
    expect(state["view"] == "compare", f"a comparison opens as {state['view']}")
    expect(state["compare"]["differences"] == len(told["buffers"]) > 3,
           f"{state['compare']['differences']} differences, stowage diff finds {len(told['buffers'])}")
    shown = page.js("[...document.querySelectorAll('#changes tbody tr')].map((row) => [row.querySelector('.name').title, "
                    "row.querySelector('.change').title])")
    for (name, title), buffer in zip(shown, told["buffers"]):
        change = buffer["difference_bytes"]
        expect(name == buffer["name"] or len(buffer["name"]) > 300, f"{name} stands where stowage diff has {buffer['name']}")
        expect(title == f"{change:,} bytes".replace("-", "\u2212"), f"{name}: {title}, stowage diff has {change}")
    plans = [json.loads(path.read_text()) for path in (before, after)]
    expect(state["compare"]["sum"] == plans[1]["live_peak_bytes"] - plans[0]["live_peak_bytes"], f"the sum is {state['compare']['sum']}")
    for plan, drawn in zip(plans, state["compare"]["maps"]):
        graph = max(plan["graphs"], key=lambda graph: graph["live_peak_bytes"])
        buffers = graph.get("buffers", plan["buffers"])
        expect(drawn["rectangles"] + drawn["aggregated"] == sum(b["size"] > 0 for b in buffers), f"a map draws {drawn}")
    page.elements("#changes tbody tr")[0].click()
    expect(max(page.drawn()["compare"]["selected"]) >= 0, "a click on a difference selects no buffer")
    # Of the card 3.80 MiB are left: a line in both maps, at one height, and both say what their signs mean.
    cards = [drawn["card"] for drawn in state["compare"]["maps"]]
    expect(all("card: 3.80 MiB for the arena" in card["text"] and card["y"] > 0 for card in cards) and abs(cards[0]["y"] - cards[1]["y"]) < 1, f"the cards are {cards}")
    for i, plan in enumerate(plans):
        again = {"hatch"} if any(b["recomputed"] for b in plan["buffers"]) else set()
        check_key(page, {"card", *again, *kinds_of_aliases(plan)}, f"#view-compare section.map:nth-of-type({i + 1}) .marks")
    # Both maps move together.
    page.elements("#view-compare canvas")[0].send_keys("+++")
    maps = page.drawn()["compare"]["maps"]
    share = [each["steps"]["high"] / plan["graphs"][0]["step_count"] for each, plan in zip(maps, plans)]
    expect(share[0] < 0.95 and abs(share[0] - share[1]) < 0.02, f"the maps show up to {share} of their steps")
    kinds = page.js("[...document.querySelectorAll('#categories td:last-child')].map((cell) => cell.title)")
    changes = [int(title.split(" byte")[0].replace(",", "").replace("\u2212", "-")) for title in kinds]
    expect(sum(changes) == state["compare"]["sum"], f"the kinds differ by {changes}, the peaks by {state['compare']['sum']}")
    # The first step of A beside the peak of B, and back.
    page.pointer(page.js("""(({x, y, width}) => ({x: x + 72, y: y + 40}))(document.querySelector('#view-compare canvas').getBoundingClientRect())"""),
                 click=True)
    moved = page.drawn()["compare"]
    expect(moved["instants"][0] < plans[0]["graphs"][0]["peak_step"], f"a click on A's curve goes to {moved['instants']}")
    first = sum(b["size"] for b in plans[0]["buffers"] if b["begin"] <= moved["instants"][0] < b["end"])
    expect(moved["sum"] == plans[1]["live_peak_bytes"] - first, f"the differences add up to {moved['sum']}")
    page.element("#tab-compare").send_keys("p")
    expect(page.drawn()["compare"]["sum"] == state["compare"]["sum"], "P does not go to the peaks")
    page.element("#tab-compare").send_keys("\ue00c")  # Escape
    expect(max(page.drawn()["compare"]["selected"]) < 0, "Escape does not clear the selection")
    check_markup(page)
    check_phone(page)
    pages.close(page)


def times(pages: Pages) -> None:
    """Measured beside planned times, of a run of the digits network: what the page says is what the profile's JSON says."""
    program, profile, planned, html = (pages.work / name for name in ("digits", "profile.json", "digits.json", "times.html"))
    pages.run("compile", ROOT / "models" / "digits_cnn.onnx", "--threads=1", "--optimizer=adamw:lr=1e-3", "-o", program)
    subprocess.run([program, "train", f"--data={ROOT / 'models' / 'data' / 'digits.npz'}", "--steps=8", f"--profile={profile}"], check=True,
                   stdout=subprocess.DEVNULL, timeout=600)
    pages.run("inspect", program, "--format=json", "-o", planned)
    pages.run("inspect", program, f"--times={profile}", "--format=html", "-o", html)
    measured, plan = json.loads(profile.read_text()), json.loads(planned.read_text())
    graph, commands = plan["graphs"][0], measured["commands"]
    page = pages.open(html)
    state = page.drawn()
    expect(state["view"] == "times", f"a page with times opens as {state['view']}")
    expect(state["times"]["commands"] == state["times"]["rows"] == len(commands) > 40, f"{state['times']} for {len(commands)} commands")
    total = sum(command["ms"] for command in commands) + measured["input_ms"] + measured["rest_ms"]
    expect(abs(1e3 * state["times"]["seconds"] - total) < 1e-6 * total, f"the step takes {state['times']['seconds']} s, not {total} ms")
    slowest = sorted(commands, key=lambda command: (-command["ms"], command["index"]))
    rows = page.js("[...document.querySelectorAll('#times tbody tr')].map((row) => [...row.cells].map((cell, i) => i === 1 ? cell.title : cell.textContent))")
    for cells, command in zip(rows, slowest):
        step, ratio = graph["steps"][command["index"]], command["ms"] / command["planned_ms"]
        expect(cells[0] == str(command["index"]) and cells[1] == graph["step_names"][command["index"]], f"{cells} for {command}")
        expect(cells[2] == plan["strings"][step["module"]], f"{cells} for module {plan['strings'][step['module']]}")
        expect(abs(float(cells[3]) - command["ms"]) < 1e-4 and abs(float(cells[4]) - 1e3 * step["seconds"]) < 1e-4, f"{cells} for {command}")
        expect(abs(float(cells[5].split()[0].replace(",", "")) - ratio) <= max(0.0051, 0.01 * ratio), f"{cells} for ratio {ratio}")
        expect(abs(float(cells[6].split()[0]) - 100 * command["ms"] / total) < 0.06, f"{cells} for a share of {command['ms'] / total}")
    check_markup(page)
    check_phone(page)
    # By ratio, and back; then a click goes to the command on the map.
    page.element("#times th:nth-child(6) button").click()
    ratio = lambda i: commands[i]["ms"] / commands[i]["planned_ms"]
    order = page.js("[...document.querySelectorAll('#times tbody tr')].map((row) => Number(row.dataset.step))")
    expect(all(ratio(a) >= ratio(b) for a, b in zip(order, order[1:])), "sorting by ratio does not")
    page.element("#times th:nth-child(4) button").click()
    page.element("#times tbody tr:first-child .link").click()
    state, first = page.drawn(), slowest[0]["index"]
    expect(state["view"] == "map" and state["instant"] == first, f"the slowest command is {first}; the map is at {state['instant']}")
    expect(state["selected"] == graph["steps"][first]["writes"][0], f"buffer {state['selected']} is selected")
    expect("measured" in page.text("#live-step") and "planned" in page.text("#live-step"), page.text("#live-step"))
    page.browser.execute_script("const m = document.querySelector('#mode'); m.value = 'measured'; m.dispatchEvent(new Event('change'))")
    state = page.drawn()
    expect(state["mode"] == "measured" and len(state["categories"]) == 13, f"colouring by measured time: {state['categories']}")
    page.element("#tab-times").click()
    pages.close(page)


def check_names(page: Page) -> None:
    """Whatever the exporter calls its nodes, people read modules; a narrow column keeps every character of a split name."""
    head = page.js("stowage.app.find('node_linear_112')")
    page.js("stowage.app.select(arguments[0], true)", head)
    expect(page.text("#details h3") == "lm_head linear", f"node_linear_112 of lm_head is called {page.text('#details h3')}")
    expect("node_linear_112" in page.text("#details"), f"its name in the plan is not told: {page.text('#details')}")
    page.js("stowage.app.select(-1)")
    toggle = "document.querySelectorAll('#live tr.folded .link').forEach((_, i) => document.querySelectorAll('#live tr.folded .link')[i].click())"
    page.js(toggle)
    named = page.js("[...document.querySelectorAll('#live .link, .overview .link, #live-step')].filter((e) => e.innerText.includes('node_')).map((e) => e.innerText)")
    expect(not named, f"names of nodes on the page: {named}")
    rows = page.js("[...document.querySelectorAll('#live tr:not(.folded) .link.name')].map((e) => [e.getAttribute('aria-label'), "
                   "[...e.children].map((part) => part.innerText).join('')])")
    expect(len(rows) > 50 and any(label[-12] == " " for label, _ in rows), f"none of {len(rows)} names is split at a blank")
    for label, shown in rows:
        expect(shown == label, f"{label} is shown as {shown}")
    page.js(toggle)


def known_card(pages: Pages) -> None:
    """A target's card, and --card's, far above a small arena; what inspects a plan or plans a model knows the same one."""
    model, planned, asked, again = ROOT / "models" / "digits_cnn.onnx", *(pages.work / f"card.{end}" for end in ("json", "html", "again.html"))
    for words, sources in ((("--threads=1", "--card=24GiB"), [(planned,)]), (("--target=cuda:rtx4090",), [(planned,), (model, "--target=cuda:rtx4090")])):
        pages.run("plan", model, *words, "--format=json", "-o", planned)
        pages.run("plan", model, *words, "--format=html", "-o", asked)
        for source in sources:
            pages.run("inspect", *source, "--format=html", "-o", again)
            expect(again.read_bytes() == asked.read_bytes(), f"inspect {source} knows another card than plan {words}")
        page = pages.open(asked)
        card, name = page.drawn()["map"]["card"], json.loads(planned.read_text())["verdict"]["card"]
        expect(card["y"] < 0 and f"{name}: 2" in card["text"] and "times as much" in card["text"], f"a card far above the arena is told as {card}")
        expect(name in page.text("#figures") and "to spare" in page.text("#figures"), page.text("#figures"))
        pages.close(page)


def line_pixels(page: Page) -> list[int]:
    """How many pixels of each row of the map have the colour of the card's line."""
    return page.js("""(() => { const canvas = document.querySelector('#map');
      const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
      const counts = new Array(canvas.height).fill(0);
      for (let i = 0; i < data.length; i += 4)
        if (data[i] > data[i + 1] + 40 && data[i + 2] > data[i + 1] + 60) ++counts[Math.floor(i / 4 / canvas.width)];
      return counts; })()""")


def check_card(page: Page, plan: dict) -> None:
    """The card's line lies at what the arena may take of it."""
    verdict = plan["verdict"]
    drawn = page.drawn()["map"]
    expect(verdict["card"] in drawn["card"]["text"], f"the card's line says {drawn['card']}")
    rows, y = line_pixels(page), int(drawn["card"]["y"])
    expect(max(rows[y - 1:y + 2]) > 300 and rows[y + 12] < 30, f"the card's line at {y} has {rows[y - 2:y + 13]} pixels")
    over = [b for b in plan["buffers"] if b["offset"] >= verdict["usable_bytes"]]
    under = [b for b in plan["buffers"] if plan["persistent_bytes"] <= b["offset"] and b["offset"] + b["size"] <= verdict["usable_bytes"]]
    places = [[page.js("stowage.app.map.placeOf(arguments[0]).y", plan["buffers"].index(b)) for b in part] for part in (over, under)]
    expect(max(places[0]) < drawn["card"]["y"] < min(places[1]), f"the card's line {drawn['card']} lies among {places}")
    shown = page.text("#figures")
    expect(verdict["card"] in shown and "1.00 GiB too much" in shown, f"the figures are {shown}")


def check_folding(page: Page, plan: dict) -> None:
    """Sixteen layers that are alike are one area and one row for each of their places, and open to sixteen."""
    state = page.drawn()["treemap"]
    layers = [sum(b["size"] for b in plan["buffers"] if f"model.layers.{i}." in plan["strings"][b["module"]] and b["begin"] <= page.state()["instant"] < b["end"])
              for i in range(16)]
    expect([(each["name"], each["bytes"]) for each in state["folded"]] == [("16 \u00d7 layer 0\u201315", sum(layers))], f"folded are {state['folded']}")
    expect(len({*layers}) == 1, f"the layers take {layers}")
    box = page.js("(({x, y}) => ({x, y}))(document.querySelector('#treemap').getBoundingClientRect())")
    place = {axis: box[axis] + state["folded"][0][axis] for axis in "xy"}
    page.pointer(place)
    expect(len(page.state()["pointed"]) == 16 and "16 \u00d7 " in page.text("#tip"), f"{page.state()['pointed']} are outlined: {page.text('#tip')}")
    page.pointer(place, click=True)
    opened = page.drawn()["treemap"]
    expect(opened["path"] == ["model.layers"] and opened["isOpen"] and not opened["folded"] and opened["leaves"] >= 16 * 12, f"a click opens {opened}")
    page.elements("#tree-path .link")[-1].click()
    expect([each["name"] for each in page.drawn()["treemap"]["folded"]] == ["16 \u00d7 layer 0\u201315"], "its layers do not fold again")
    page.element("#tree-path .link").click()
    expect(page.drawn()["treemap"] == state, "'all' does not show everything")
    rows = page.state()["rows"]
    folded = page.elements("#live tr.folded .link")
    expect(len(folded) == 12 and rows < 40, f"{len(folded)} of {rows} rows are folded")
    folded[0].click()
    expect(page.drawn()["rows"] == rows + 16 and len(page.elements("#live tr.part")) == 16, f"a row opens to {page.state()['rows'] - rows}")
    page.elements("#live tr.part .link")[3].click()
    selected = page.state()["selected"]
    expect("model.layers.3.mlp." in plan["strings"][plan["buffers"][selected]["module"]], f"the fourth row selects {plan['buffers'][selected]}")
    expect(len(page.elements("#live tr[aria-selected=true]")) == 2, "the folded row and the buffer's own are not marked")
    page.element("#live tr.folded .link").click()
    expect(page.drawn()["rows"] == rows, "the row does not close")
    page.js("stowage.app.select(-1)")


def check_grouped_legend(page: Page) -> None:
    """Of many modules the legend has every one, if only together with others; an entry dims all that it stands for."""
    page.browser.execute_script("const m = document.querySelector('#mode'); m.value = 'module'; m.dispatchEvent(new Event('change'))")
    count = len(page.drawn()["categories"])
    entries = page.js("[...document.querySelectorAll('#legend button')].map((e) => e.textContent)")
    expect(14 < count < 70 and len(entries) == 15 and f"{count - 14} other modules" in entries[-1], f"{count} modules have {entries}")
    page.elements("#legend button")[-1].click()
    dimmed = page.drawn()["treemap"]["dimmed"]
    expect(dimmed > 0 and page.js("stowage.app.hidden.size") == count - 14, f"{dimmed} areas are dimmed")
    page.elements("#legend button")[-1].click()
    page.browser.execute_script("const m = document.querySelector('#mode'); m.value = 'kind'; m.dispatchEvent(new Event('change'))")
    expect(page.drawn()["treemap"]["dimmed"] == 0, "areas stay dim")


def layered_model(pages: Pages) -> None:
    """Sixteen layers of a language model, as PyTorch's exporter names their nodes."""
    source, html = pages.fabricated("layered"), pages.work / "layered.html"
    pages.run("inspect", source, "--format=html", "-o", html)
    page = pages.open(html)
    plan = json.loads(source.read_text())
    check_against_plan(page, plan)
    check_names(page)
    check_card(page, plan)
    check_key(page, {"card"})
    check_folding(page, plan)
    check_grouped_legend(page)
    pages.close(page)


def travelling(pages: Pages) -> None:
    page, plan = plan_that_travels(pages)
    check_key(page, {"copy", "wait", *kinds_of_aliases(plan), *({"hatch", "link"} if any(b["recomputed"] for b in plan["buffers"]) else {})})
    check_lanes(page, plan)
    pages.close(page)


CHECKS = [frontier, compare, times, small_network, travelling, shared_storage, hostile_names, known_card, layered_model]
LONG = [long_step, resnet18, gpt2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stowage", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--keep-pictures", action="store_true")
    parser.add_argument("--whole", action="store_true", help="the pages of long steps instead of the others")
    parser.add_argument("--only", help="the name of one check")
    arguments = parser.parse_args()
    if missing := missing_parts():
        print(f"skipped: {', '.join(missing)} missing; scripts/install.sh installs what a browser test needs")
        sys.exit(77)
    pages = Pages(arguments.stowage.resolve(), arguments.work, arguments.keep_pictures)
    try:
        for check in LONG if arguments.whole else CHECKS:
            if arguments.only in (None, check.__name__):
                check(pages)
                print(f"{check.__name__}: holds", flush=True)
    finally:
        pages.browser.quit()


if __name__ == "__main__":
    main()
