// A primitive with its arguments, ready to run.
#pragma once

#include "runtime/base/Parallel.h"

#include <oneapi/dnnl/dnnl.hpp>

#include <string>
#include <vector>

namespace stow::host {

/// The argument list is kept in the C interface's form: the C++ one builds a new list on every
/// execution.
class Execution {
public:
  explicit Execution(dnnl::primitive primitive) : primitive(std::move(primitive)) {}

  /// `kind` is DNNL_ARG_*. The list keeps the memory object alive.
  void add(int kind, const dnnl::memory &memory) {
    memories.push_back(memory);
    arguments.push_back({kind, memory.get()});
  }

  /// What one thread at a time runs parts with: the primitive and the arguments of every kind of part, without places. There are as many as
  /// threads may run parts, each with memory objects of its own; those of all parts would be a hundred times as many, of 728 bytes each.
  void addPartRunner(std::vector<Execution> kinds) { partRunners.push_back(std::move(kinds)); }

  /// A part of the work: parts run in the primitive's place, each on one thread. `kind` is one of a runner's; places are in the order of its
  /// arguments.
  void addPart(size_t kind, std::vector<char *> places) {
    parts.push_back({kind, std::move(places)});
  }

  bool hasParts() const { return !parts.empty(); }

  /// What a part leaves elsewhere, to be added to `sum` when all have run, in the order of the calls. All have the same sum and count.
  void addAddend(float *sum, const float *addend, int64_t count);

  /// The primitive gets at most so many threads.
  void limitThreads(int64_t threads) { mostThreads = threads; }

  /// Throws Error(Internal) that begins with `title`.
  void run(const dnnl::stream &stream, const std::string &title) const;

private:
  struct Part {
    size_t kind;
    std::vector<char *> places;
  };

  dnnl_status_t execute(const dnnl::stream &stream) const;
  dnnl_status_t executeAt(const std::vector<char *> &places, const dnnl::stream &stream) const;
  dnnl_status_t executeParts(const dnnl::stream &stream) const;
  void addUp() const;

  dnnl::primitive primitive;
  std::vector<dnnl::memory> memories;
  std::vector<dnnl_exec_arg_t> arguments;
  std::vector<std::vector<Execution>> partRunners;
  std::vector<Part> parts;
  float *sum = nullptr;
  std::vector<const float *> addends;
  int64_t summed = 0; ///< elements
  int64_t mostThreads = maxThreads;
};

} // namespace stow::host
