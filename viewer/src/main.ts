// Reads the data of this file and starts the page.
import { App } from "./app";
import { byId } from "./dom";
import { openPicture, unpack } from "./plan";
import { visible } from "./text";

/// For tests and for people at the browser's console.
interface Hook {
  app?: App;
  state(): object;
  errors: string[];
  readyMs: number; ///< from the start of loading to the first drawn frame; 0 before it
}
const hook: Hook = { errors: [], readyMs: 0, state: () => hook.app?.state() ?? {} };
(window as any).stowage = hook;
window.addEventListener("error", (event) => hook.errors.push(String(event.message)));
window.addEventListener("unhandledrejection", (event) => hook.errors.push(String(event.reason)));

async function start(): Promise<void> {
  try {
    const holder = byId("data");
    const raw = await unpack(holder.textContent ?? "");
    holder.remove();
    hook.app = new App(openPicture(raw));
    requestAnimationFrame(() => requestAnimationFrame(() => { hook.readyMs = performance.now(); }));
  } catch (error) {
    const problem = byId("problem");
    problem.hidden = false;
    problem.textContent = `This page cannot show its plan: ${visible(String((error as Error).message ?? error))}`;
    hook.errors.push(String(error));
  }
}

void start();
