#include "codegen/host/LibraryAnswers.h"

#include "absl/container/flat_hash_map.h"

#include <mutex>
#include <string>

namespace stow::host {
namespace {

/// Numbers and names in a row, each list behind its length, so that no two forms are written alike.
class Form {
public:
  Form(const Command &call, const std::vector<bool> &anyLayout, int64_t threads) {
    add(static_cast<int64_t>(call.op));
    add(threads);
    add(std::vector<int64_t>(anyLayout.begin(), anyLayout.end()));
    add(std::ssize(call.operands));
    for (const Operand &operand : call.operands) {
      add(static_cast<int64_t>(operand.dtype));
      add(operand.shape);
      add(operand.layout);
    }
    add(std::ssize(call.ints));
    for (const auto &[name, values] : call.ints) {
      add(name);
      add(values);
    }
    add(std::ssize(call.floats));
    for (const auto &[name, value] : call.floats) {
      add(name);
      text.append(reinterpret_cast<const char *>(&value), sizeof(value));
    }
  }

  std::string text;

private:
  void add(int64_t value) { text.append(reinterpret_cast<const char *>(&value), sizeof(value)); }
  void add(const std::string &name) {
    add(std::ssize(name));
    text += name;
  }
  void add(const std::vector<int64_t> &values) {
    add(std::ssize(values));
    for (int64_t value : values)
      add(value);
  }
  void add(const Layout &layout) {
    add(layout.groups);
    add(layout.order);
    add(std::ssize(layout.blocks));
    for (const Layout::Block &block : layout.blocks) {
      add(block.dim);
      add(block.size);
    }
    add(layout.pitch ? layout.pitch->dim : -1);
    add(layout.pitch ? layout.pitch->extent : -1);
  }
};

} // namespace

LibraryRequirements askLibrary(const Command &call, const std::vector<bool> &anyLayout,
                               int64_t threads) {
  static std::mutex mutex;
  static absl::flat_hash_map<std::string, LibraryRequirements> answers;
  const std::string form = Form(call, anyLayout, threads).text;
  {
    const std::lock_guard lock(mutex);
    if (auto found = answers.find(form); found != answers.end())
      return found->second;
  }
  const LibraryRequirements answer = queryLibrary(call, anyLayout, threads);
  const std::lock_guard lock(mutex);
  answers.emplace(form, answer);
  return answer;
}

} // namespace stow::host
