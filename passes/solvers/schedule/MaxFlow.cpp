#include "passes/solvers/schedule/MaxFlow.h"

#include <algorithm>
#include <limits>

namespace stow::schedule {

int32_t MaxFlow::addArc(int32_t from, int32_t to, int64_t capacity) {
  arcs.push_back({from, to});
  capacities.push_back(capacity);
  first.clear(); // the layout is stale
  return static_cast<int32_t>(arcs.size()) - 1;
}

/// Sorts both directions of every inner arc by node, so that a scan of a node is one run of memory.
void MaxFlow::layOut() {
  innerArcs.clear();
  sourceArcs.clear();
  sinkArcs.clear();
  straightArcs.clear();
  first.assign(count + 1, 0);
  for (int32_t a = 0; a < static_cast<int32_t>(arcs.size()); ++a) {
    const auto [from, to] = arcs[a];
    if (from == sourceNode)
      (to == sinkNode ? straightArcs : sourceArcs).push_back(a);
    else if (to == sinkNode)
      sinkArcs.push_back(a);
    else if (from != sinkNode && to != sourceNode) {
      innerArcs.push_back({a, none});
      ++first[from + 1];
      ++first[to + 1];
    }
  }
  for (int32_t v = 0; v < count; ++v)
    first[v + 1] += first[v];
  edges.resize(first[count]);
  std::vector<int32_t> next(first.begin(), first.end() - 1);
  for (InnerArc &inner : innerArcs) {
    const auto [from, to] = arcs[inner.arc];
    const int32_t forward = next[from]++, backward = next[to]++;
    edges[forward] = {to, backward, 0};
    edges[backward] = {from, forward, 0};
    inner.edge = forward;
  }
}

void MaxFlow::activate(int32_t node) {
  if (places[node].isActive)
    return;
  places[node].isActive = true;
  queue.push_back(node);
}

/// No flow yet but what goes straight through a node; every other node with an arc to a terminal
/// starts a tree.
void MaxFlow::reset() {
  flow = 0;
  supply.assign(count, 0);
  demand.assign(count, 0);
  for (const int32_t arc : straightArcs)
    flow += capacities[arc];
  for (const int32_t arc : sourceArcs)
    supply[arcs[arc].to] = std::min(supply[arcs[arc].to] + capacities[arc], unbounded);
  for (const int32_t arc : sinkArcs)
    demand[arcs[arc].from] = std::min(demand[arcs[arc].from] + capacities[arc], unbounded);
  for (const auto [arc, edge] : innerArcs) {
    edges[edge].residual = capacities[arc];
    edges[edges[edge].reverse].residual = 0;
  }
  places.assign(count, {none, 0, 0, false, false});
  terminals.assign(count, 0);
  queue.clear();
  queueBegin = 0;
  now = 0;
  for (int32_t v = 0; v < count; ++v) {
    flow += std::min(supply[v], demand[v]);
    terminals[v] = supply[v] - demand[v];
    if (terminals[v] == 0)
      continue;
    places[v] = {terminal, 1, 0, terminals[v] < 0, false};
    activate(v);
  }
}

/// The first node in the queue that is in a tree; `none` if there is none left.
int32_t MaxFlow::nextActive() {
  while (queueBegin < queue.size()) {
    const int32_t v = queue[queueBegin++];
    places[v].isActive = false;
    if (places[v].parent != none)
      return v;
  }
  return none;
}

/// Takes free neighbours into the node's tree. Returns an edge from the source's tree to the sink's
/// if there is one, else `none`.
int32_t MaxFlow::grow(int32_t node) {
  const Place here = places[node];
  edgesSeen += first[node + 1] - first[node];
  for (int32_t e = first[node]; e < first[node + 1]; ++e) {
    const int32_t back = edges[e].reverse;
    if (edges[here.isSinkTree ? back : e].residual == 0)
      continue;
    Place &other = places[edges[e].to];
    if (other.parent == none) {
      other.isSinkTree = here.isSinkTree;
      other.parent = back;
      other.time = here.time;
      other.distance = here.distance + 1;
      activate(edges[e].to);
    } else if (other.isSinkTree != here.isSinkTree) {
      return here.isSinkTree ? back : e;
    } else if (other.time <= here.time && other.distance > here.distance) {
      other.parent = back; // nearer to the terminal
      other.time = here.time;
      other.distance = here.distance + 1;
    }
  }
  return none;
}

/// Sends flow along the tree paths on both sides of the bridge.
void MaxFlow::augment(int32_t bridge) {
  const int32_t ends[] = {edges[edges[bridge].reverse].to, edges[bridge].to};
  int64_t amount = edges[bridge].residual;
  for (int32_t v : ends) {
    for (; places[v].parent != terminal; v = edges[places[v].parent].to, ++edgesSeen)
      amount = std::min(amount, residualAlong(places[v].parent, places[v].isSinkTree));
    amount = std::min(amount, std::abs(terminals[v]));
  }
  edges[bridge].residual -= amount;
  edges[edges[bridge].reverse].residual += amount;
  for (int32_t v : ends) {
    const bool isSinkTree = places[v].isSinkTree;
    while (places[v].parent != terminal) {
      const int32_t up = places[v].parent, used = isSinkTree ? up : edges[up].reverse;
      edges[used].residual -= amount;
      edges[edges[used].reverse].residual += amount;
      if (edges[used].residual == 0) {
        places[v].parent = orphan;
        orphans.push_back(v);
      }
      v = edges[up].to;
    }
    terminals[v] += isSinkTree ? amount : -amount;
    if (terminals[v] == 0) {
      places[v].parent = orphan;
      orphans.push_back(v);
    }
  }
  flow += amount;
}

/// The number of arcs to the terminal, unbounded if the path ends at an orphan. Nodes on the way
/// remember it.
int32_t MaxFlow::originDistance(int32_t node) {
  constexpr int32_t never = std::numeric_limits<int32_t>::max();
  int32_t distance = 0;
  for (int32_t v = node;;) {
    ++edgesSeen;
    Place &place = places[v];
    if (place.time == now) {
      distance += place.distance;
      break;
    }
    if (place.parent == orphan || place.parent == none)
      return never;
    ++distance;
    if (place.parent == terminal) {
      place.time = now;
      place.distance = 1;
      break;
    }
    v = edges[place.parent].to;
  }
  int32_t left = distance;
  for (int32_t v = node; places[v].time != now; v = edges[places[v].parent].to) {
    places[v].time = now;
    places[v].distance = left--;
  }
  return distance;
}

/// Every orphan gets the parent nearest to the terminal, or leaves its tree; then its children are
/// orphans.
void MaxFlow::adopt() {
  constexpr int32_t never = std::numeric_limits<int32_t>::max();
  for (size_t i = 0; i < orphans.size(); ++i) {
    const int32_t v = orphans[i];
    const bool isSinkTree = places[v].isSinkTree;
    int32_t best = none, bestDistance = never;
    edgesSeen += first[v + 1] - first[v];
    for (int32_t e = first[v]; e < first[v + 1]; ++e) {
      const int32_t u = edges[e].to;
      if (residualAlong(e, isSinkTree) == 0 || places[u].isSinkTree != isSinkTree ||
          places[u].parent == none)
        continue;
      const int32_t distance = originDistance(u);
      if (distance < bestDistance) {
        bestDistance = distance;
        best = e;
      }
    }
    if (best != none) {
      places[v].parent = best;
      places[v].time = now;
      places[v].distance = bestDistance + 1;
      continue;
    }
    places[v].parent = none;
    for (int32_t e = first[v]; e < first[v + 1]; ++e) {
      const int32_t u = edges[e].to;
      if (places[u].isSinkTree != isSinkTree || places[u].parent == none)
        continue;
      if (residualAlong(e, isSinkTree) > 0)
        activate(u);
      const int32_t up = places[u].parent;
      if (up >= 0 && edges[up].to == v) {
        places[u].parent = orphan;
        orphans.push_back(u);
      }
    }
  }
  orphans.clear();
}

int64_t MaxFlow::solve(int32_t source, int32_t sink) {
  sourceNode = source;
  sinkNode = sink;
  if (first.empty())
    layOut();
  reset();
  for (int32_t v = none;;) {
    if (v == none || places[v].parent == none)
      v = nextActive();
    if (v == none)
      break;
    const int32_t bridge = grow(v);
    ++now;
    if (bridge == none) {
      v = none;
      continue;
    }
    augment(bridge);
    adopt();
  }
  reached.assign(count, 0);
  for (int32_t v = 0; v < count; ++v)
    reached[v] = v == source || (v != sink && places[v].parent != none && !places[v].isSinkTree);
  return flow;
}

} // namespace stow::schedule
