#include "passes/solvers/schedule/MaxFlow.h"

#include <algorithm>

namespace stow::schedule {

int32_t MaxFlow::addArc(int32_t from, int32_t to, int64_t capacity) {
  arcs.push_back({from, to});
  capacities.push_back(capacity);
  first.clear(); // the layout is stale
  return static_cast<int32_t>(arcs.size()) - 1;
}

/// Sorts both directions of every arc by node, so that a scan of a node is one run of memory.
void MaxFlow::layOut() {
  const size_t nodes = heads.size();
  first.assign(nodes + 1, 0);
  for (const Arc &arc : arcs) {
    ++first[arc.from + 1];
    ++first[arc.to + 1];
  }
  for (size_t v = 0; v < nodes; ++v)
    first[v + 1] += first[v];
  edges.resize(2 * arcs.size());
  edgeOfArc.resize(arcs.size());
  std::vector<int32_t> next(first.begin(), first.end() - 1);
  for (size_t a = 0; a < arcs.size(); ++a) {
    int32_t forward = next[arcs[a].from]++, backward = next[arcs[a].to]++;
    edges[forward] = {arcs[a].to, backward, 0};
    edges[backward] = {arcs[a].from, forward, 0};
    edgeOfArc[a] = forward;
  }
}

bool MaxFlow::layer(int32_t source, int32_t sink) {
  std::fill(level.begin(), level.end(), -1);
  queue.clear();
  queue.push_back(source);
  level[source] = 0;
  for (size_t i = 0; i < queue.size(); ++i) {
    int32_t v = queue[i];
    if (v == sink)
      break;
    edgesSeen += first[v + 1] - first[v];
    for (int32_t e = first[v]; e < first[v + 1]; ++e)
      if (edges[e].residual > 0 && level[edges[e].to] < 0) {
        level[edges[e].to] = level[v] + 1;
        queue.push_back(edges[e].to);
      }
  }
  return level[sink] >= 0;
}

/// Finds augmenting paths in the layered network with an explicit stack of edges: planning graphs
/// are tens of thousands of ops deep.
int64_t MaxFlow::augment(int32_t source, int32_t sink) {
  int64_t total = 0;
  path.clear();
  int32_t v = source;
  while (true) {
    ++edgesSeen;
    if (v == sink) {
      int64_t amount = unbounded;
      for (int32_t e : path)
        amount = std::min(amount, edges[e].residual);
      size_t firstFull = path.size();
      edgesSeen += static_cast<int64_t>(path.size());
      for (size_t i = path.size(); i-- > 0;) {
        Edge &edge = edges[path[i]];
        edge.residual -= amount;
        edges[edge.reverse].residual += amount;
        if (edge.residual == 0)
          firstFull = i;
      }
      total += amount;
      v = edges[edges[path[firstFull]].reverse].to;
      path.resize(firstFull);
      continue;
    }
    bool advanced = false;
    for (int32_t &e = heads[v]; e < first[v + 1]; ++e)
      if (edges[e].residual > 0 && level[edges[e].to] == level[v] + 1) {
        path.push_back(e);
        v = edges[e].to;
        advanced = true;
        break;
      }
    if (advanced)
      continue;
    if (v == source)
      return total;
    level[v] = -1; // dead end
    v = edges[edges[path.back()].reverse].to;
    path.pop_back();
    ++heads[v];
  }
}

int64_t MaxFlow::solve(int32_t source, int32_t sink) {
  if (first.empty())
    layOut();
  for (size_t a = 0; a < arcs.size(); ++a) {
    Edge &edge = edges[edgeOfArc[a]];
    edge.residual = capacities[a];
    edges[edge.reverse].residual = 0;
  }
  level.assign(heads.size(), -1);
  int64_t total = 0;
  while (layer(source, sink)) {
    std::copy(first.begin(), first.end() - 1, heads.begin());
    total += augment(source, sink);
  }
  reached.assign(heads.size(), 0);
  for (size_t v = 0; v < heads.size(); ++v)
    reached[v] = level[v] >= 0;
  return total;
}

} // namespace stow::schedule
