// Maximum flow with integer capacities: the algorithm of Boykov and Kolmogorov ("An Experimental
// Comparison of Min-Cut/Max-Flow Algorithms for Energy Minimization in Vision", 2004).
//
// Two trees of arcs with capacity left grow from the source and towards the sink. Where they touch,
// flow is sent along both; nodes whose arc to their parent is full then look for a new parent
// nearby. Cuts of plans have short augmenting paths between thousands of nodes, where this is
// several times faster than layered networks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stow::schedule {

/// A flow network. Build it once with addArc, then set capacities and solve any number of times.
class MaxFlow {
public:
  static constexpr int64_t unbounded = int64_t(1) << 61;

  explicit MaxFlow(int32_t nodeCount) : count(nodeCount) {}

  /// Adds an arc and returns its id.
  int32_t addArc(int32_t from, int32_t to, int64_t capacity);
  void setCapacity(int32_t arc, int64_t capacity) { capacities[arc] = capacity; }

  /// The value of a maximum flow between the same two nodes in every call. Capacities of finite
  /// arcs must sum to less than 2^61, and every path must have a finite arc. Near linear on
  /// planning graphs.
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
  /// A node's place in its tree. Distances are upper bounds, exact if `time` is now.
  struct Place {
    int32_t parent = 0; ///< edge to the parent, or one of the values below
    int32_t distance = 0;
    int32_t time = 0;
    bool isSinkTree = false;
    bool isActive = false;
  };
  static constexpr int32_t none = -3, orphan = -2, terminal = -1;

  void layOut();
  void reset();
  int32_t nextActive();
  int32_t grow(int32_t node);
  void augment(int32_t bridge);
  void adopt();
  int32_t originDistance(int32_t node);
  void activate(int32_t node);
  /// Capacity left from the parent's side of a tree to the other.
  int64_t residualAlong(int32_t edge, bool isSinkTree) const {
    return edges[isSinkTree ? edge : edges[edge].reverse].residual;
  }

  struct Arc {
    int32_t from, to;
  };
  struct InnerArc {
    int32_t arc, edge;
  };
  int32_t count;
  int32_t sourceNode = 0, sinkNode = 0;
  std::vector<Arc> arcs;
  std::vector<int64_t> capacities;
  std::vector<int32_t> first; ///< per node: begin of its edges
  std::vector<Edge> edges;    ///< between inner nodes
  std::vector<InnerArc> innerArcs;
  std::vector<int32_t> sourceArcs, sinkArcs, straightArcs; ///< those at one terminal, at both
  std::vector<int64_t> terminals; ///< capacity left from the source (positive) or to the sink
  std::vector<int64_t> supply, demand;
  std::vector<Place> places;
  std::vector<int32_t> queue, orphans;
  std::size_t queueBegin = 0;
  int32_t now = 0;
  int64_t flow = 0;
  std::vector<char> reached;
  int64_t edgesSeen = 0;
};

} // namespace stow::schedule
