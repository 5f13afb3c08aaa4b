// Live buffers by the modules of the model. Layers that are alike can be folded into one group.

export interface TreeNode {
  name: string;
  bytes: number;
  buffers: number[];       ///< of a leaf: one, or those at the same place of layers that are folded; none for a group
  children: TreeNode[];
  layers: TreeNode[];      ///< those that a folded group stands for; none for others
}

/// Buffers by the parts of their modules. A group with one child is merged with it.
export function groupByModule(buffers: number[], pathOf: (b: number) => string[], bytesOf: (b: number) => number,
  nameOf: (b: number) => string): TreeNode {
  interface Group { node: TreeNode; groups: Map<string, Group>; }
  const make = (name: string): Group => ({ node: { name, bytes: 0, buffers: [], children: [], layers: [] }, groups: new Map() });
  const root = make("");
  for (const b of buffers) {
    let group = root;
    for (const part of pathOf(b)) {
      let next = group.groups.get(part);
      if (!next) {
        next = make(part);
        group.groups.set(part, next);
        group.node.children.push(next.node);
      }
      group = next;
    }
    group.node.children.push({ name: nameOf(b), bytes: bytesOf(b), buffers: [b], children: [], layers: [] });
  }
  const finish = (node: TreeNode): void => {
    for (const child of node.children)
      finish(child);
    while (node.children.length === 1 && !isLeaf(node.children[0]) && node !== root.node) {
      node.name += "." + node.children[0].name;
      node.children = node.children[0].children;
    }
    if (!isLeaf(node))
      node.bytes = bytesOfAll(node.children);
    node.children.sort((a, b) => b.bytes - a.bytes);
    layersInOrder(node.children);
  };
  finish(root.node);
  return root.node;
}

export function isLeaf(node: TreeNode): boolean { return node.buffers.length > 0; }

function bytesOfAll(nodes: TreeNode[]): number { return nodes.reduce((sum, node) => sum + node.bytes, 0); }

const NUMBER = /^\d+(?=$|\.)/;

/// The number of a repeated layer, of "3" or "3.mlp"; -1 for others.
function layerNumber(node: TreeNode): number {
  const number = isLeaf(node) ? null : NUMBER.exec(node.name);
  return number ? Number(number[0]) : -1;
}

/// Repeated layers lie in their order, before what is beside them: neighbours in the model are neighbours on the map.
function layersInOrder(nodes: TreeNode[]): void {
  const layers = nodes.filter((node) => layerNumber(node) >= 0).sort((a, b) => layerNumber(a) - layerNumber(b));
  if (layers.length < 2)
    return;
  const others = nodes.filter((node) => layerNumber(node) < 0);
  nodes.splice(0, nodes.length, ...layers, ...others);
}

/// The group at the end of a path, as far as the tree has it, and the names of the groups on the way.
export function follow(root: TreeNode, path: string[]): { node: TreeNode; names: string[] } {
  let node = root;
  const names: string[] = [];
  for (let at = 0; at < path.length;) {
    const next = node.children.find((child) => !isLeaf(child) &&
      child.name.split(".").every((part, i) => at + i >= path.length || part === path[at + i]));
    if (!next)
      break;
    at += next.name.split(".").length;
    names.push(next.name);
    node = next;
  }
  return { node, names };
}

/// The leaves of a tree, from the first on.
export function leavesOf(node: TreeNode): TreeNode[] {
  return isLeaf(node) ? [node] : node.children.flatMap(leavesOf);
}

const LEAST_LAYERS = 3;

/// The tree with layers that are alike as one group: layers beside each other with the same modules, and in them buffers of the
/// same bytes and kinds. With `isOpen` those right below the root stay as they are.
export function fold(root: TreeNode, kindOf: (b: number) => string, isOpen = false): TreeNode {
  const known = new Map<TreeNode, string>();
  const signOf = (node: TreeNode): string => {
    let sign = known.get(node);
    if (sign === undefined)
      known.set(node, sign = isLeaf(node) ? `${node.buffers.length} ${kindOf(node.buffers[0])} ${node.bytes}`
        : `${node.name.replace(NUMBER, "*")}(${node.children.map(signOf).sort().join()})`);
    return sign;
  };
  const folded = (node: TreeNode, isKept: boolean): TreeNode => {
    const children = node.children.map((child) => folded(child, false));
    return { ...node, children: isKept ? children : foldLayers(children, signOf) };
  };
  return folded(root, isOpen);
}

function foldLayers(nodes: TreeNode[], signOf: (node: TreeNode) => string): TreeNode[] {
  const layers = nodes.filter((node) => layerNumber(node) >= 0);
  if (layers.length < LEAST_LAYERS)
    return nodes;
  const alike = new Map<string, TreeNode[]>();
  for (const layer of layers) {
    const sign = signOf(layer);
    alike.set(sign, [...alike.get(sign) ?? [], layer]);
  }
  return nodes.flatMap((node) => {
    const group = layerNumber(node) < 0 ? [] : alike.get(signOf(node))!;
    if (group.length < LEAST_LAYERS)
      return [node];
    return node === group[0] ? [{ ...merged(group, signOf), name: `${group.length} \u00d7 layer ${rangesOf(group.map(layerNumber))}`, layers: group }] : [];
  });
}

/// Nodes that are alike as one: what lies at the same place in each is one leaf.
function merged(nodes: TreeNode[], signOf: (node: TreeNode) => string): TreeNode {
  const sorted = nodes.map((node) => [...node.children].sort((a, b) => signOf(a) < signOf(b) ? -1 : signOf(a) > signOf(b) ? 1 : 0));
  const children = sorted[0].map((_, i) => merged(sorted.map((each) => each[i]), signOf)).sort((a, b) => b.bytes - a.bytes);
  return { name: commonName(nodes.map((node) => node.name)), bytes: bytesOfAll(nodes), buffers: nodes.flatMap((node) => node.buffers), children,
    layers: nodes[0].layers };
}

/// "h.*.mlp" of "h.0.mlp", "h.1.mlp" and "h.2.mlp"; the first of names that differ in more than numbers.
export function commonName(names: string[]): string {
  const parts = names.map((name) => name.split(/(\d+)/));
  const isNumber = (i: number): boolean => i % 2 === 1;
  const isCommon = (i: number): boolean => parts.every((each) => each[i] === parts[0][i]);
  if (parts.some((each) => each.length !== parts[0].length) || !parts[0].every((_, i) => isNumber(i) || isCommon(i)))
    return names[0];
  return parts[0].map((part, i) => isCommon(i) ? part : "*").join("");
}

/// "0-3, 5" of 0, 1, 2, 3 and 5, with a dash for numbers.
export function rangesOf(numbers: number[]): string {
  const ranges: [number, number][] = [];
  for (const number of numbers) {
    const last = ranges[ranges.length - 1];
    if (last && last[1] === number - 1)
      last[1] = number;
    else
      ranges.push([number, number]);
  }
  return ranges.map(([from, to]) => from === to ? String(from) : `${from}\u2013${to}`).join(", ");
}
