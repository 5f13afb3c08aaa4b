// Elements from text. Nothing here, and nothing in this folder, makes HTML from strings.

type Attributes = Record<string, string | number | boolean | ((event: any) => void)>;
type Child = Node | string | null | undefined;

/// element("button", {class: "x", onclick: f}, "text"): strings become text nodes.
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  fill(made, attributes, children);
  return made;
}

/// The same for shapes.
export function shape<K extends keyof SVGElementTagNameMap>(
  tag: K, attributes: Attributes = {}, ...children: Child[]): SVGElementTagNameMap[K] {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  fill(made, attributes, children);
  return made;
}

function fill(made: Element, attributes: Attributes, children: Child[]): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function")
      made.addEventListener(name.replace(/^on/, ""), value);
    else if (value === true)
      made.setAttribute(name, "");
    else if (value !== false)
      made.setAttribute(name, String(value));
  }
  for (const child of children)
    if (child !== null && child !== undefined)
      made.append(child);
}

/// The element of the page's template with this id.
export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (!found)
    throw new Error(`the page lacks #${id}`);
  return found as T;
}
