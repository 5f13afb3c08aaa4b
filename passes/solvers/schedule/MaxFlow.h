// Maximum flow with integer capacities: Dinic's algorithm (1970), with arcs stored by node.
#pragma once

#include <cstdint>
#include <vector>

namespace stow::schedule {

/// A flow network. Build it once with addArc, then set capacities and solve any number of times.
class MaxFlow {
public:
  static constexpr int64_t unbounded = int64_t(1) << 61;

  explicit MaxFlow(int32_t nodeCount) : heads(nodeCount) {}

  /// Adds an arc and returns its id.
  int32_t addArc(int32_t from, int32_t to, int64_t capacity);
  void setCapacity(int32_t arc, int64_t capacity) { capacities[arc] = capacity; }

  /// The value of a maximum flow. Capacities of finite arcs must sum to less than 2^61.
  /// O(nodes^2 * arcs) at worst; near linear on planning graphs.
  int64_t solve(int32_t source, int32_t sink);

  /// Edges looked at by all solves so far: a clock that is the same on every machine.
  int64_t work() const { return edgesSeen; }

  /// After solve: true for nodes on the source side of the minimum cut nearest to the source.
  const std::vector<char> &sourceSide() const { return reached; }

private:
  struct Edge {
    int32_t to = 0;
    int32_t reverse = 0; ///< index of the opposite edge
    int64_t residual = 0;
  };
  bool layer(int32_t source, int32_t sink);
  int64_t augment(int32_t source, int32_t sink);
  void layOut();

  struct Arc {
    int32_t from, to;
  };
  std::vector<Arc> arcs;
  std::vector<int64_t> capacities;
  std::vector<int32_t> heads; ///< per node: sized at construction, then reused as current edge
  std::vector<int32_t> first; ///< per node: begin of its edges
  std::vector<Edge> edges;
  std::vector<int32_t> edgeOfArc;
  std::vector<int32_t> level, queue, path;
  std::vector<char> reached;
  int64_t edgesSeen = 0;
};

} // namespace stow::schedule
