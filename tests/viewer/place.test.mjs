// Tests links to what is looked at.
import assert from "node:assert/strict";
import test from "node:test";
import { formatPlace, parsePlace } from "../../viewer/src/place";

const opened = { plan: 0, graph: null, step: null, buffer: null, color: null };

test("what is as in a page just opened is left out", () => assert.equal(formatPlace(opened), ""));

test("a place comes back from its text", () => {
  const place = { plan: 2, graph: "eval", step: 0, buffer: 17, color: "module" };
  assert.equal(formatPlace(place), "plan=2&graph=eval&step=0&buffer=17&color=module");
  assert.deepEqual(parsePlace("#" + formatPlace(place)), place);
});

test("what is no place says nothing", () => {
  assert.deepEqual(parsePlace(""), opened);
  assert.deepEqual(parsePlace("#step=-1&buffer=1e9&plan=x"), opened);
});
