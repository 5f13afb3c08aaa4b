// Layout and element type conversion. Tensors with 16-bit elements are reordered in loops of this
// room (ReorderLoops.h) unless the library has fast code for them.
#include "runtime/host/Float16.h"
#include "runtime/host/Primitive.h"
#include "runtime/host/loops/ReorderLoops.h"

#include <algorithm>
#include <string_view>

namespace stow::host {

namespace {

/// The library's descriptors of both sides.
struct Sides {
  dnnl::memory::desc src, dst;
};

Sides sidesOf(const Call &call) {
  Sides sides = {call.desc(0), call.desc(1)};
  auto &[src, dst] = sides;
  // Grouped weights have one dimension more; the other side is the same bytes with it split.
  if (dimsOf(src).size() < dimsOf(dst).size())
    src = call.choose([&] { return src.reshape(dimsOf(dst)); });
  else if (dimsOf(dst).size() < dimsOf(src).size())
    dst = call.choose([&] { return dst.reshape(dimsOf(src)); });
  else if (dimsOf(src) != dimsOf(dst))
    call.fail("groups differ: " + call.describe(0) + ", " + call.describe(1));
  return sides;
}

/// The library's fast code for 16-bit elements, if it has any here.
std::optional<dnnl::reorder::primitive_desc> fastCode(const Sides &sides) {
  try {
    dnnl::reorder::primitive_desc found(cpuEngine(), sides.src, cpuEngine(), sides.dst,
                                        callAttributes());
    if (std::string_view(found.impl_info_str()).starts_with("jit"))
      return found;
  } catch (const dnnl::error &) { // no code at all
  }
  return std::nullopt;
}

} // namespace

Preparation prepareReorder(const Command &command, const std::vector<bool> &anyLayout) {
  Call call(command, anyLayout, {"src", "dst"});
  if (std::ranges::find(anyLayout, true) != anyLayout.end())
    call.fail("both layouts must be given");
  if (call.shape(0) != call.shape(1))
    call.fail("shapes differ: " + call.describe(0) + ", " + call.describe(1));
  const Sides sides = sidesOf(call);
  const std::vector<Argument> arguments = {{0, DNNL_ARG_FROM, sides.src, call.operand(0).layout},
                                           {1, DNNL_ARG_TO, sides.dst, call.operand(1).layout}};
  if (is16Bit(call.operand(0).dtype) || is16Bit(call.operand(1).dtype)) {
    if (auto fast = fastCode(sides))
      return {*fast, arguments};
    if (auto plan = ReorderPlan::of(call.operand(0), call.operand(1)))
      return {{},
              arguments,
              Loops{"stow_reorder", 0,
                    [plan = *plan](const std::vector<char *> &at, char *, int64_t threads) {
                      plan.run(at[0], at[1], threads);
                    }}};
  }
  auto chosen = call.choose([&] {
    return dnnl::reorder::primitive_desc(cpuEngine(), sides.src, cpuEngine(), sides.dst,
                                         callAttributes());
  });
  return {chosen, arguments};
}

} // namespace stow::host
