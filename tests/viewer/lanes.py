"""Copies on their lanes under the map, and what is fetched among the parts, as the plan's JSON has them."""

import itertools
import json
from pathlib import Path

from page import Page, expect

MODEL = Path(__file__).resolve().parents[2] / "models" / "digits_cnn.onnx"
# A slow disk that is stated, so that there are waits and no folder is needed.
TRAVELS = ("--offload=/missing", "--offload-bandwidth=8,8,5", "--offload-capacity=1GiB", "--offload-state=all", "--freeze=fc1.bias",
           "--optimizer=adam:lr=1e-3", "--memory-budget=50%", "--target-cpu=x86-64-v3")  # fmt: skip


def check_lanes(page: Page, plan: dict) -> None:
    graph = plan["graphs"][0]
    copies = graph["copies"]["each"]
    seconds = [step.get("seconds", 0) for step in graph["steps"]]
    waiting = [copy for copy in copies if seconds[copy["await"]] > 0]
    expect(0 < len(waiting) < len(copies), f"{len(waiting)} of {len(copies)} copies are waited for")
    expect(abs(sum(seconds[copy["await"]] for copy in waiting) - graph["copies"]["exposed_seconds"]) < 1e-9, f"waits of {waiting}")
    fetched = plan["breakdown"]["fetched_optimizer"]
    sums = page.js("[...document.querySelectorAll('#sums tr')].map((row) => [row.cells[0].textContent, row.cells[1].title])")
    said = dict(sums).get("optimizer, fetched", "")
    expect(fetched > 0 and f"{fetched:,} bytes" in said, f"the sum has {sums}, {fetched} bytes are fetched")
    expect("fetched_optimizer" in page.state()["categories"], f"kinds are {page.state()['categories']}")
    drawn = page.drawn()["map"]
    expect(sorted(drawn["copies"]) == sorted(copy["name"] for copy in copies), f"bars of {drawn['copies']}, the plan has {copies}")
    expect(drawn["waits"] == len(waiting), f"{drawn['waits']} gaps, {len(waiting)} copies are waited for")
    # What is waited for ends with its await, and everything passes between its start and its await by the clock of the commands.
    clock = [0, *itertools.accumulate(seconds)]
    places = page.js("stowage.app.graph.copies.map(({from, to}) => [from, to])")
    for copy, (begin, end) in zip(copies, places):
        expect(copy["start"] <= begin < end <= copy["await"] + 1, f"{copy} passes from {begin} to {end}")
        expect(copy not in waiting or abs(end - copy["await"] - 1) < 1e-6, f"{copy} is waited for and ends at {end}")
        passed = clock[int(begin)] + (begin - int(begin)) * seconds[min(int(begin), len(seconds) - 1)]
        expect(abs(passed - copy["begin_seconds"]) < 1e-9, f"{copy} begins at command {begin}, which is {passed} s")
    longest = max(range(len(copies)), key=lambda i: copies[i]["seconds"])
    copy = copies[longest]
    place = page.js("stowage.app.placeOfCopy(arguments[0])", longest)
    page.pointer(place)
    name = plan["buffers"][copy["buffer"]]["name"]
    expect(name in page.text("#tip"), f"hovering over the copy of {copy['name']} says {page.text('#tip')}")
    page.pointer(place, click=True)
    expect(page.state()["selected"] == copy["buffer"], f"a click on it selects {page.state()['selectedName']}")
    for words in (f"{copy['name']} {'to' if copy['direction'] == 'out' else 'from'} slow memory", f"{copy['bytes']:,} bytes"):
        expect(words in page.text("#details"), f"the details lack {words}: {page.text('#details')}")
    page.js("stowage.app.select(-1)")


def plan_that_travels(pages) -> "tuple[Page, dict]":
    html, planned = pages.work / "lanes.html", pages.work / "lanes.json"
    pages.run("plan", MODEL, *TRAVELS, "--threads=1", "--format=json", "-o", planned)
    pages.run("inspect", planned, "--format=html", "-o", html)
    return pages.open(html), json.loads(planned.read_text())
