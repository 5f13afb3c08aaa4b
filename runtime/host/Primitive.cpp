#include "runtime/host/Primitive.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/host/Instructions.h"

#include <string_view>

namespace stow::host {

const dnnl::engine &cpuEngine() {
  static const dnnl::engine engine = [] {
    instructions(); // limits the library before it makes anything
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return engine;
}

const dnnl::primitive_attr &callAttributes() {
  static const dnnl::primitive_attr attributes = [] {
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return attr;
  }();
  return attributes;
}

bool usesHeap(const char *implementation) {
  return std::string_view(implementation).find("gemm:") != std::string_view::npos;
}

bool isReference(const char *implementation) {
  std::string_view name(implementation);
  return name.starts_with("ref:") || name.find("_ref:") != std::string_view::npos;
}

namespace {

std::string formatShape(const Shape &shape) {
  return shape.empty() ? "scalar" : joined(shape, "x");
}

std::string nameLayout(const Layout &layout) {
  if (layout.isRowMajor() && layout.groups <= 1)
    return "row-major";
  return '"' + formatLayout(layout) + '"';
}

} // namespace

Call::Call(const Command &command, const std::vector<bool> &anyLayout,
           std::vector<std::string> operandNames)
    : command(command), anyLayout(anyLayout), names(std::move(operandNames)) {
  if (command.operands.size() == names.size())
    return;
  fail(concat("expected ", names.size(), " operands (", joined(names, ", "), "), found ",
              command.operands.size()));
}

std::string callTitle(const Command &call) {
  return concat(nameOf(call.op), " of node '", call.name, "'");
}

std::string Call::prefix() const { return callTitle(command) + ": "; }

void Call::fail(const std::string &why) const { throw Error::badInput(prefix() + why); }

std::string Call::describe(size_t index) const {
  const Operand &op = operand(index);
  return concat("operand ", index, " (", names.at(index), ", ", nameOf(op.dtype), " ",
                formatShape(op.shape), ", layout ", isAny(index) ? "free" : nameLayout(op.layout),
                ")");
}

void Call::refuse(const std::string &reason) const {
  std::string text = "the library refuses these operands: " + reason;
  for (size_t i = 0; i < command.operands.size(); ++i)
    text += "\n  " + describe(i);
  fail(text);
}

std::vector<int64_t> Call::ints(const std::string &name, size_t count) const {
  auto found = command.ints.find(name);
  if (found == command.ints.end())
    fail(concat("attribute '", name, "' is missing; expected ", count, " integers"));
  if (found->second.size() != count)
    fail(concat("attribute '", name, "' has ", found->second.size(), " values; expected ", count));
  return found->second;
}

int64_t Call::integer(const std::string &name) const { return ints(name, 1).front(); }

int64_t Call::integerOr(const std::string &name, int64_t absent) const {
  return command.ints.contains(name) ? integer(name) : absent;
}

double Call::number(const std::string &name) const {
  auto found = command.floats.find(name);
  if (found == command.floats.end())
    fail("attribute '" + name + "' is missing; expected a number");
  return found->second;
}

void Call::requireRank(size_t index, size_t rank) const {
  if (shape(index).size() != rank)
    fail(concat(describe(index), " must have ", rank, " dimensions"));
}

dnnl::memory::desc Call::desc(size_t index) const {
  const Operand &op = operand(index);
  try {
    if (isAny(index))
      return anyDesc(op.dtype, op.shape);
    return descOf(op.dtype, op.shape, op.layout);
  } catch (const Error &error) {
    fail(describe(index) + ": " + error.what());
  }
}

dnnl::memory::desc Call::descLike(size_t index, size_t like) const {
  if (!isAny(index))
    return desc(index);
  const Operand &op = operand(index);
  if (isAny(like))
    fail(describe(like) + " needs a layout of its own");
  return descOf(op.dtype, op.shape, operand(like).layout);
}

Argument Call::argument(size_t index, int dnnlArgument, const dnnl::memory::desc &given,
                        const dnnl::memory::desc &chosen, int64_t groups) const {
  return viewArgument(index, dnnlArgument, given, chosen, chosen, groups);
}

Argument Call::viewArgument(size_t index, int dnnlArgument, const dnnl::memory::desc &given,
                            const dnnl::memory::desc &chosen,
                            const dnnl::memory::desc &chosenStored, int64_t groups) const {
  Argument result{index, dnnlArgument, chosen, operand(index).layout};
  if (!isAny(index)) {
    if (given == chosen)
      return result;
    std::optional<Layout> wanted = layoutOf(chosenStored, groups);
    fail(describe(index) + " is not taken as it is; the library wants layout " +
         (wanted ? nameLayout(*wanted) : "of its own") + "; put a dnnl.reorder before the call");
  }
  std::optional<Layout> found = layoutOf(chosenStored, groups);
  if (!found)
    fail(describe(index) + ": the library wants a packed layout that a plan cannot express; give "
                           "the operand a layout");
  result.layout = *found;
  return result;
}

Argument Call::vector(size_t index, int dnnlArgument, int64_t count, DType type) const {
  const Operand &op = operand(index);
  if (elementCount(op.shape) != count || op.dtype != type || !op.layout.isRowMajor())
    fail(concat(describe(index), " must be ", nameOf(type), " with ", count,
                " elements, row-major"));
  return {index, dnnlArgument, descOf(type, {count}, {}), op.layout};
}

Argument Call::opaque(size_t index, int dnnlArgument, const dnnl::memory::desc &desc) const {
  return {index, dnnlArgument, desc, {}, true};
}

} // namespace stow::host
