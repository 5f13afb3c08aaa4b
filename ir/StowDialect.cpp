#include "ir/OpGroup.h"

#include "runtime/base/Error.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

#include "ir/StowDialect.cpp.inc"
#include "ir/StowEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "ir/StowAttributes.cpp.inc"

namespace stow {

void StowDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "ir/StowAttributes.cpp.inc"
      >();
#define STOW_OP_GROUP(Group) add##Group##Ops(*this);
#include "ir/StowOpGroups.inc"
#undef STOW_OP_GROUP
}

//===-- Words --------------------------------------------------------------------------===//

namespace {

/// Checks that the discardable attribute `attribute` of what `place` names (""; " of argument 1") is
/// a word of its enum. `Value` is the enum, `last` its largest value.
template <typename Attr, typename Value>
LogicalResult checkWord(Operation *op, const Twine &place, NamedAttribute attribute,
                        unsigned last) {
  if (isa<Attr>(attribute.getValue()))
    return success();
  std::string known;
  for (unsigned value = 0; value <= static_cast<unsigned>(last); ++value)
    known += (value ? ", " : "") + stringifyEnum(static_cast<Value>(value)).str();
  StringRef name = attribute.getName();
  auto text = dyn_cast<StringAttr>(attribute.getValue());
  bool isKnown = text && symbolizeEnum<Value>(text.getValue());
  return op->emitError() << "'" << name << "'" << place << " expects a word of #" << name << " ("
                         << known << "), found " << attribute.getValue() << "; write " << name
                         << " = #" << name << "<"
                         << (isKnown ? text.getValue() : stringifyEnum(static_cast<Value>(0)))
                         << ">";
}

} // namespace

LogicalResult StowDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  if (attribute.getName() == kPhaseAttr)
    return checkWord<PhaseAttr, Phase>(op, "", attribute, getMaxEnumValForPhase());
  if (attribute.getName() == kRoleAttr)
    return checkWord<RoleAttr, Role>(op, "", attribute, getMaxEnumValForRole());
  return success();
}

LogicalResult StowDialect::verifyRegionArgAttribute(Operation *op, unsigned, unsigned argument,
                                                    NamedAttribute attribute) {
  if (attribute.getName() == kKindAttr)
    return checkWord<ArgumentKindAttr, ArgumentKind>(op, " of argument " + Twine(argument),
                                                     attribute, getMaxEnumValForArgumentKind());
  return success();
}

//===-- LayoutAttr ---------------------------------------------------------------------------===//

namespace {

/// The layout of a text, read once in a thread: passes ask for the same few of them millions of times.
const Layout &knownLayout(StringRef text) {
  thread_local llvm::StringMap<Layout> known;
  if (auto found = known.find(text); found != known.end())
    return found->second;
  return known.try_emplace(text, parseLayout(text.str())).first->second;
}

} // namespace

Layout LayoutAttr::getLayout() const { return knownLayout(getText()); }

LogicalResult LayoutAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                                 StringRef text) {
  try {
    parseLayout(text.str());
  } catch (const Error &error) {
    return emitError() << error.what();
  }
  return success();
}

LogicalResult LayoutAttr::verifyEncoding(ArrayRef<int64_t> shape, Type elementType,
                                         llvm::function_ref<InFlightDiagnostic()> emitError) const {
  try {
    checkLayout(getLayout(), Shape(shape.begin(), shape.end()));
  } catch (const Error &error) {
    return emitError() << error.what();
  }
  return success();
}

//===-- InitAttr -----------------------------------------------------------------------------===//

LogicalResult InitAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                               StringRef distribution, APFloat first, APFloat second) {
  double a = first.convertToDouble(), b = second.convertToDouble();
  if (distribution != "constant" && distribution != "normal" && distribution != "uniform")
    return emitError() << "unknown distribution \"" << distribution
                       << "\"; expected constant, normal or uniform";
  if (distribution == "normal" && b < 0)
    return emitError() << "standard deviation " << b << " is negative";
  if (distribution == "uniform" && b < a)
    return emitError() << "uniform range [" << a << ", " << b << ") is empty";
  return success();
}

Attribute InitAttr::parse(AsmParser &parser, Type) {
  std::string distribution;
  double a, b;
  if (parser.parseLess() || parser.parseString(&distribution) || parser.parseComma() ||
      parser.parseFloat(a) || parser.parseComma() || parser.parseFloat(b) || parser.parseGreater())
    return {};
  return parser.getChecked<InitAttr>(parser.getContext(), distribution, APFloat(a), APFloat(b));
}

void InitAttr::print(AsmPrinter &printer) const {
  printer << "<\"" << getDistribution() << "\", ";
  printer.printFloat(getA());
  printer << ", ";
  printer.printFloat(getB());
  printer << ">";
}

//===-- Types and locations ------------------------------------------------------------------===//

Layout layoutOf(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  if (auto attr = dyn_cast_or_null<LayoutAttr>(tensor.getEncoding()))
    return attr.getLayout();
  return {};
}

RankedTensorType withoutPitch(RankedTensorType type) {
  Layout layout = layoutOf(type);
  layout.pitch.reset();
  return withLayout(type, layout);
}

RankedTensorType withLayout(RankedTensorType type, const Layout &layout) {
  if (layout.isRowMajor())
    return withoutLayout(type);
  return RankedTensorType::get(type.getShape(), type.getElementType(),
                               LayoutAttr::get(type.getContext(), formatLayout(layout)));
}

RankedTensorType withoutLayout(RankedTensorType type) {
  return RankedTensorType::get(type.getShape(), type.getElementType());
}

DType dtypeOf(Type elementType) {
  return llvm::TypeSwitch<Type, DType>(elementType)
      .Case<Float64Type>([](auto) { return DType::F64; })
      .Case<Float32Type>([](auto) { return DType::F32; })
      .Case<Float16Type>([](auto) { return DType::F16; })
      .Case<BFloat16Type>([](auto) { return DType::BF16; })
      .Case<IntegerType>([](IntegerType type) {
        switch (type.getWidth()) {
        case 64:
          return DType::I64;
        case 32:
          return DType::I32;
        case 8:
          return DType::U8;
        default:
          return DType::I1;
        }
      })
      .DefaultUnreachable("element type is not one of the dialect's");
}

Bytes storedBytesOf(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  const DType element = dtypeOf(tensor.getElementType());
  if (!tensor.getEncoding())
    return tensor.getNumElements() * sizeOf(element);
  return storedBytes(layoutOf(type), Shape(tensor.getShape().begin(), tensor.getShape().end()),
                     element);
}

Bytes ownBytesOf(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  Layout layout = layoutOf(type);
  if (!layout.pitch)
    return storedBytesOf(type);
  layout.pitch.reset();
  return storedBytes(layout, Shape(tensor.getShape().begin(), tensor.getShape().end()),
                     dtypeOf(tensor.getElementType()));
}

std::optional<RankedTensorType> typeInside(Type whole, RankedTensorType part) {
  auto outer = cast<RankedTensorType>(whole);
  auto layout = boxLayout(layoutOf(whole), Shape(outer.getShape().begin(), outer.getShape().end()),
                          Shape(part.getShape().begin(), part.getShape().end()));
  return layout ? std::optional(withLayout(part, *layout)) : std::nullopt;
}

Bytes offsetInside(Type whole, ArrayRef<int64_t> starts) {
  auto tensor = cast<RankedTensorType>(whole);
  auto strides =
      outerStrides(layoutOf(whole), Shape(tensor.getShape().begin(), tensor.getShape().end()));
  Bytes elements = 0;
  for (auto [start, stride] : llvm::zip_equal(starts, strides))
    elements += start * stride;
  return elements * sizeOf(dtypeOf(tensor.getElementType()));
}

bool sameLogicalTypes(TypeRange left, TypeRange right) {
  return llvm::equal(left, right, [](Type a, Type b) {
    auto x = dyn_cast<RankedTensorType>(a), y = dyn_cast<RankedTensorType>(b);
    return x && y && x.getShape() == y.getShape() && x.getElementType() == y.getElementType();
  });
}

bool compatibleTypes(TypeRange left, TypeRange right) {
  return llvm::equal(left, right, [](Type a, Type b) {
    auto x = dyn_cast<RankedTensorType>(a), y = dyn_cast<RankedTensorType>(b);
    return x && y && x.getShape() == y.getShape() &&
           commonType(x.getElementType(), y.getElementType());
  });
}

Type commonType(Type left, Type right) {
  if (left == right)
    return left;
  auto mixes = [](Type type) { return type.isF32() || type.isF16() || type.isBF16(); };
  return mixes(left) && mixes(right) ? Float32Type::get(left.getContext()) : Type();
}

FailureOr<SmallVector<int64_t>> broadcastShapes(ArrayRef<int64_t> left, ArrayRef<int64_t> right) {
  SmallVector<int64_t> result(std::max(left.size(), right.size()), 1);
  for (size_t i = 0; i < result.size(); ++i) {
    int64_t a = i < left.size() ? left[left.size() - 1 - i] : 1;
    int64_t b = i < right.size() ? right[right.size() - 1 - i] : 1;
    if (a != b && a != 1 && b != 1)
      return failure();
    result[result.size() - 1 - i] = a == 1 ? b : a;
  }
  return result;
}

FailureOr<SmallVector<int64_t, 3>> windowOutput(std::optional<Location> location,
                                                ArrayRef<int64_t> spatial, ArrayRef<int64_t> window,
                                                ArrayRef<int64_t> strides, ArrayRef<int64_t> pads,
                                                ArrayRef<int64_t> dilations) {
  size_t rank = spatial.size();
  if (window.size() != rank || strides.size() != rank || pads.size() != 2 * rank ||
      dilations.size() != rank)
    return emitOptionalError(location, "expects windows over ", rank, " spatial dimensions: ", rank,
                             " strides, ", 2 * rank, " pads, ", rank, " dilations");
  SmallVector<int64_t, 3> result;
  for (size_t i = 0; i < rank; ++i) {
    if (strides[i] < 1 || dilations[i] < 1 || pads[i] < 0 || pads[i + rank] < 0)
      return emitOptionalError(location, "strides and dilations must be positive and pads not "
                                         "negative");
    int64_t extent = spatial[i] + pads[i] + pads[i + rank] - dilations[i] * (window[i] - 1) - 1;
    if (extent < 0)
      return emitOptionalError(location, "window of ", dilations[i] * (window[i] - 1) + 1,
                               " elements does not fit into a padded extent of ",
                               spatial[i] + pads[i] + pads[i + rank], " in spatial dimension ", i);
    result.push_back(extent / strides[i] + 1);
  }
  return result;
}

std::string sourceNameOf(Location location) {
  if (auto name = dyn_cast<NameLoc>(location))
    return name.getName().str();
  if (auto fused = dyn_cast<FusedLoc>(location))
    for (Location part : fused.getLocations())
      if (std::string name = sourceNameOf(part); !name.empty())
        return name;
  return "";
}

std::string sourcePlaceOf(Location location) {
  if (auto name = dyn_cast<NameLoc>(location)) {
    std::string child = sourcePlaceOf(name.getChildLoc());
    return child.empty() ? name.getName().str() : child + " (" + name.getName().str() + ")";
  }
  if (auto file = dyn_cast<FileLineColLoc>(location))
    return file.getFilename().str() + ":" + std::to_string(file.getLine());
  if (auto fused = dyn_cast<FusedLoc>(location))
    for (Location part : fused.getLocations())
      if (std::string place = sourcePlaceOf(part); !place.empty())
        return place;
  return "";
}

} // namespace stow
