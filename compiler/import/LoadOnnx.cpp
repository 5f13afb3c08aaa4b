// ONNX files to onnx::Model. The only file that sees protobuf.
//
// Nothing in the file is trusted: sizes are checked before data is taken over, external data must
// lie under the model's folder, links resolved, and inside its file. Metadata is read up to a size and only ever
// printed or compared.
#include "compiler/import/OnnxModel.h"

#include "runtime/base/Error.h"
#include "runtime/base/InputFile.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <set>

#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <sys/mman.h>

namespace stow::onnx {
namespace {

namespace fs = std::filesystem;

/// Reads one file; `path` prefixes every message.
class Loader {
public:
  explicit Loader(const std::string &path) : path(path) {}

  Model load();

private:
  [[noreturn]] void fail(const std::string &reason) const {
    throw Error::badInput("'" + path + "': " + reason);
  }

  InputFile open() const;
  void parse(::onnx::ModelProto &proto);
  Tensor tensor(::onnx::TensorProto &proto) const;
  std::string elements(::onnx::TensorProto &proto, int64_t size) const;
  std::string externalData(const ::onnx::TensorProto &proto, int64_t sizeBytes) const;
  void requireInside(const fs::path &file, const std::string &what) const;
  NodeAttribute attribute(::onnx::AttributeProto &proto) const;
  Node node(::onnx::NodeProto &proto, int index) const;
  std::optional<GraphSignature> signature(const ::onnx::GraphProto &proto) const;
  Graph branch(::onnx::GraphProto &proto) const;
  Function function(::onnx::FunctionProto &proto) const;
  Input input(const ::onnx::ValueInfoProto &proto) const;

  std::string path;
  std::vector<fs::path> folders; ///< without links, that external data may lie in
};

/// Longest text of metadata that is read: a signature has a line per parameter, a node's stack
/// trace some lines per call.
constexpr size_t kSignatureLimit = 1 << 24, kNodeTextLimit = 1 << 16;

/// Field numbers of metadata_props, and of the defaults of a function's attributes. Headers before ONNX 1.16 and 1.13 do not know
/// the fields, so that they are found among the unknown ones.
constexpr int kGraphMetadata = 16, kNodeMetadata = 9, kDefaults = 11;

/// Visits the entries of a field that the headers do not know.
template <typename Entry, typename Proto, typename Visit>
void forEachUnknown(const Proto &proto, int field, Visit visit) {
  const auto &unknown = proto.unknown_fields();
  for (int i = 0; i < unknown.field_count(); ++i) {
    const auto &found = unknown.field(i);
    Entry entry;
    if (found.number() == field &&
        found.type() == ::google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED &&
        entry.ParseFromString(found.length_delimited()))
      visit(entry);
  }
}

template <typename Proto, typename Visit> void forEachDefault(Proto &proto, Visit visit) {
  if constexpr (requires { proto.mutable_attribute_proto(); })
    for (auto &entry : *proto.mutable_attribute_proto())
      visit(entry);
  forEachUnknown<::onnx::AttributeProto>(proto, kDefaults, visit);
}

template <typename Proto, typename Visit>
void forEachMetadata(const Proto &proto, int field, Visit visit) {
  if constexpr (requires { proto.metadata_props_size(); })
    for (const auto &entry : proto.metadata_props())
      visit(entry.key(), entry.value());
  forEachUnknown<::onnx::StringStringEntryProto>(
      proto, field, [&](const auto &entry) { visit(entry.key(), entry.value()); });
}

/// `text` without what would garble a message.
std::string printable(std::string_view text, size_t limit) {
  std::string result(text.substr(0, limit));
  for (char &c : result)
    if (static_cast<unsigned char>(c) < 32 || c == 127)
      c = ' ';
  return result;
}

/// "['', 'layer1', 'layer1.0', 'relu']": the module is the last but one, the operation the last.
std::string modulePathOf(std::string_view scopes) {
  std::vector<std::string_view> parts;
  for (size_t at = 0; (at = scopes.find('\'', at)) != std::string_view::npos;) {
    size_t end = scopes.find('\'', at + 1);
    if (end == std::string_view::npos)
      break;
    parts.push_back(scopes.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return parts.size() < 2 ? "" : printable(parts[parts.size() - 2], 256);
}

/// The innermost frame of a stack trace that does not lie in PyTorch itself, as "file.py:line".
std::string pythonLineOf(std::string_view trace) {
  constexpr std::string_view begin = "File \"", middle = "\", line ";
  std::string result;
  for (size_t at = 0; (at = trace.find(begin, at)) != std::string_view::npos;) {
    at += begin.size();
    size_t end = trace.find(middle, at);
    if (end == std::string_view::npos)
      break;
    std::string_view file = trace.substr(at, end - at);
    size_t digits = end + middle.size(), stop = digits;
    while (stop < trace.size() && trace[stop] >= '0' && trace[stop] <= '9')
      ++stop;
    if (stop > digits && file.find("/torch/") == std::string_view::npos)
      result = printable(file.substr(file.rfind('/') + 1), 256) + ":" +
               std::string(trace.substr(digits, std::min<size_t>(stop - digits, 9)));
    at = stop;
  }
  return result;
}

/// A file mapped for reading. Parsing from one range lets protobuf size every weight exactly.
class MappedModel {
public:
  explicit MappedModel(const InputFile &file) : length(file.size()) {
    void *mapped = ::mmap(nullptr, length, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
    data = length > 0 && mapped != MAP_FAILED ? mapped : nullptr;
  }
  ~MappedModel() {
    if (data)
      ::munmap(data, length);
  }
  MappedModel(const MappedModel &) = delete;
  MappedModel &operator=(const MappedModel &) = delete;

  void *data = nullptr;
  const size_t length;
};

InputFile Loader::open() const {
  std::error_code error;
  if (!fs::exists(path, error))
    fail("no such file; give the path of an ONNX model");
  return InputFile(path);
}

void Loader::parse(::onnx::ModelProto &proto) {
  const InputFile input = open();
  // The folder that the model is named in, and the one that it lies in where it is itself a link.
  std::error_code error;
  const fs::path parent = fs::path(path).parent_path();
  folders = {fs::canonical(parent.empty() ? "." : parent, error),
             fs::path(input.realPath()).parent_path()};
  const MappedModel file(input);
  if (file.length > 0 && !file.data)
    fail("cannot be mapped into memory");
  if (file.length > static_cast<size_t>(std::numeric_limits<int>::max()))
    fail("larger than 2 GiB; save the weights as external data");
  if (!proto.ParseFromArray(file.data, static_cast<int>(file.length)))
    fail("not an ONNX model, or damaged: its protobuf encoding does not parse");
  if (!proto.has_graph())
    fail("not an ONNX model: it holds no graph");
}

/// Copies `count` values, converting each from the wider type protobuf stores.
template <typename Stored, typename Field> std::string narrowed(const Field &values) {
  std::string bytes(values.size() * sizeof(Stored), '\0');
  for (int i = 0; i < values.size(); ++i) {
    Stored value = static_cast<Stored>(values[i]);
    std::memcpy(bytes.data() + i * sizeof(Stored), &value, sizeof(Stored));
  }
  return bytes;
}

/// The type of 8 bits that numbers of 4 are held in; absent for other types.
std::optional<ElementType> heldInEightBits(int32_t type) {
  constexpr int32_t uint4 = 21, int4 = 22; // since ONNX 1.16
  if (type == int4)
    return ElementType::Int8;
  if (type == uint4)
    return ElementType::UInt8;
  return std::nullopt;
}

/// `count` numbers of 4 bits, two in a byte, the lower half first, in a byte each.
std::string unpacked(const std::string &packed, int64_t count, bool isSigned) {
  std::string bytes;
  for (int64_t i = 0; i < count; ++i) {
    const auto byte = static_cast<uint8_t>(packed[static_cast<size_t>(i / 2)]);
    const int bits = i % 2 ? byte >> 4 : byte & 15;
    bytes += static_cast<char>(isSigned && bits > 7 ? bits - 16 : bits);
  }
  return bytes;
}

/// As the file has them; `size` bytes where they lie in another file.
std::string Loader::elements(::onnx::TensorProto &proto, int64_t size) const {
  auto type = static_cast<ElementType>(proto.data_type());
  if (proto.data_location() == ::onnx::TensorProto::EXTERNAL)
    return externalData(proto, size);
  if (proto.has_raw_data())
    return std::move(*proto.mutable_raw_data());
  switch (type) {
  case ElementType::Float:
    return narrowed<float>(proto.float_data());
  case ElementType::Double:
    return narrowed<double>(proto.double_data());
  case ElementType::Int64:
    return narrowed<int64_t>(proto.int64_data());
  case ElementType::UInt64:
    return narrowed<uint64_t>(proto.uint64_data());
  case ElementType::UInt32:
    return narrowed<uint32_t>(proto.uint64_data());
  case ElementType::Int32:
    return narrowed<int32_t>(proto.int32_data());
  case ElementType::Int16:
  case ElementType::UInt16:
  case ElementType::Float16:
  case ElementType::BFloat16:
    return narrowed<uint16_t>(proto.int32_data());
  default:
    return narrowed<uint8_t>(proto.int32_data());
  }
}

std::string Loader::externalData(const ::onnx::TensorProto &proto, int64_t sizeBytes) const {
  std::string place, what = "external data of tensor '" + proto.name() + "'";
  int64_t offset = 0, length = sizeBytes;
  for (const auto &entry : proto.external_data()) {
    const std::string &text = entry.value();
    auto number = [&](int64_t &value) {
      auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (error != std::errc() || end != text.data() + text.size() || value < 0)
        fail(what + ": " + entry.key() + " '" + text + "' is not a byte count");
    };
    if (entry.key() == "location")
      place = text;
    else if (entry.key() == "offset")
      number(offset);
    else if (entry.key() == "length")
      number(length);
  }
  fs::path relative(place);
  bool outside = place.empty() || relative.is_absolute();
  for (const fs::path &part : relative)
    outside |= part == "..";
  if (outside)
    fail(what + ": location '" + place + "' does not lie under the model's folder");
  if (length != sizeBytes)
    fail(absl::StrCat(what, ": expected ", sizeBytes, " bytes, found length ", length));
  const fs::path named = fs::path(path).parent_path() / relative;
  std::error_code error;
  if (!fs::is_regular_file(named, error))
    fail(what + ": file '" + named.string() + "' is missing; keep it beside the model");
  const InputFile file(named.string());
  requireInside(file.realPath(), what + ": location '" + place + "'");
  const auto available = static_cast<int64_t>(file.size());
  if (offset > available || available - offset < length)
    fail(absl::StrCat(what, ": bytes [", offset, ", +", length, ") lie outside '", named.string(),
                      "' of ", available, " bytes"));
  return file.read(static_cast<size_t>(offset), static_cast<size_t>(length));
}

/// Throws unless `file`, a path without links, lies under one of the folders that external data may lie in.
void Loader::requireInside(const fs::path &file, const std::string &what) const {
  for (const fs::path &folder : folders)
    if (!folder.empty() && std::ranges::mismatch(folder, file).in1 == folder.end())
      return;
  fail(what + " is a link to '" + file.string() +
       "', which does not lie under the model's folder; copy the file there");
}

Tensor Loader::tensor(::onnx::TensorProto &proto) const {
  Tensor result;
  result.name = proto.name();
  result.type = static_cast<ElementType>(proto.data_type());
  result.shape.assign(proto.dims().begin(), proto.dims().end());
  result.bytes = std::make_shared<std::string>();
  std::optional<int64_t> count = checkedElementCount(result.shape);
  std::optional<int64_t> width = byteWidthOf(result.type);
  const std::optional<ElementType> held = heldInEightBits(proto.data_type());
  if (!count)
    fail("tensor '" + proto.name() + "' has a negative or too large dimension");
  if (!width && !held) // kept without data: only its use is an obstacle
    return result;
  const int64_t size = held ? (*count + 1) / 2 : *count * *width;
  *result.bytes = elements(proto, size);
  if (static_cast<int64_t>(result.bytes->size()) != size)
    fail(absl::StrCat("tensor '", proto.name(), "' holds ", result.bytes->size(),
                      " bytes, its shape and type (", nameOf(result.type), ") call for ", size));
  if (held) {
    *result.bytes = unpacked(*result.bytes, *count, *held == ElementType::Int8);
    result.type = *held;
  }
  return result;
}

NodeAttribute Loader::attribute(::onnx::AttributeProto &proto) const {
  NodeAttribute result;
  result.reference = proto.ref_attr_name();
  // Files of IR versions before 2 leave the type out: the filled field tells.
  auto type = proto.type();
  if (type == ::onnx::AttributeProto::UNDEFINED) {
    type = proto.has_f()          ? ::onnx::AttributeProto::FLOAT
           : proto.has_i()        ? ::onnx::AttributeProto::INT
           : proto.has_s()        ? ::onnx::AttributeProto::STRING
           : proto.has_t()        ? ::onnx::AttributeProto::TENSOR
           : proto.has_g()        ? ::onnx::AttributeProto::GRAPH
           : proto.floats_size()  ? ::onnx::AttributeProto::FLOATS
           : proto.strings_size() ? ::onnx::AttributeProto::STRINGS
                                  : ::onnx::AttributeProto::INTS;
  }
  switch (type) {
  case ::onnx::AttributeProto::FLOAT:
    result.kind = NodeAttribute::Kind::Float;
    result.f = proto.f();
    break;
  case ::onnx::AttributeProto::INT:
    result.kind = NodeAttribute::Kind::Int;
    result.i = proto.i();
    break;
  case ::onnx::AttributeProto::STRING:
    result.kind = NodeAttribute::Kind::String;
    result.s = proto.s();
    break;
  case ::onnx::AttributeProto::TENSOR:
    result.kind = NodeAttribute::Kind::Tensor;
    result.tensor = tensor(*proto.mutable_t());
    break;
  case ::onnx::AttributeProto::GRAPH:
    result.kind = NodeAttribute::Kind::Graph;
    result.graph = std::make_shared<Graph>(branch(*proto.mutable_g()));
    break;
  case ::onnx::AttributeProto::FLOATS:
    result.kind = NodeAttribute::Kind::Floats;
    result.floats.assign(proto.floats().begin(), proto.floats().end());
    break;
  case ::onnx::AttributeProto::INTS:
    result.kind = NodeAttribute::Kind::Ints;
    result.ints.assign(proto.ints().begin(), proto.ints().end());
    break;
  case ::onnx::AttributeProto::STRINGS:
    result.kind = NodeAttribute::Kind::Strings;
    result.strings.assign(proto.strings().begin(), proto.strings().end());
    break;
  default:
    break;
  }
  return result;
}

/// "ai.onnx" is filed under "".
std::string domainOf(const std::string &domain) { return domain == "ai.onnx" ? "" : domain; }

Node Loader::node(::onnx::NodeProto &proto, int index) const {
  Node result;
  result.type = proto.op_type();
  result.domain = domainOf(proto.domain());
  result.name = proto.name().empty() ? absl::StrCat(proto.op_type(), "_", index) : proto.name();
  result.inputs.assign(proto.input().begin(), proto.input().end());
  result.outputs.assign(proto.output().begin(), proto.output().end());
  std::set<std::string> captured;
  for (auto &attr : *proto.mutable_attribute()) {
    NodeAttribute &added = result.attributes[attr.name()] = attribute(attr);
    if (!added.graph)
      continue;
    std::set<std::string> own;
    own.insert(added.graph->inputs.begin(), added.graph->inputs.end());
    for (const auto &[name, tensor] : added.graph->initializers)
      own.insert(name);
    for (const Node &inner : added.graph->nodes)
      own.insert(inner.outputs.begin(), inner.outputs.end());
    auto capture = [&](const std::vector<std::string> &names) {
      for (const std::string &name : names)
        if (!name.empty() && !own.count(name))
          captured.insert(name);
    };
    for (const Node &inner : added.graph->nodes) {
      capture(inner.inputs);
      capture(inner.captured);
    }
    capture(added.graph->outputs);
  }
  result.captured.assign(captured.begin(), captured.end());
  forEachMetadata(proto, kNodeMetadata, [&](const std::string &key, const std::string &value) {
    if (value.size() > kNodeTextLimit)
      return;
    if (key == "pkg.onnxscript.rewriter.rule_name")
      result.rules = printable(value, 1024);
    else if (key == "pkg.torch.onnx.fx_node")
      result.fxNode = value;
    else if (key == "pkg.torch.onnx.name_scopes")
      result.modulePath = modulePathOf(value);
    else if (key == "pkg.torch.onnx.stack_trace")
      result.pythonLine = pythonLineOf(value);
  });
  return result;
}

std::optional<GraphSignature> Loader::signature(const ::onnx::GraphProto &proto) const {
  std::optional<GraphSignature> result;
  std::map<std::string, std::string> lists = {{"stowage.frozen", ""},
                                              {"stowage.next_values", ""},
                                              {"stowage.stored", ""},
                                              {"stowage.tied", ""},
                                              {"stowage.types", ""}};
  bool keepsModes = false;
  forEachMetadata(proto, kGraphMetadata, [&](const std::string &key, const std::string &value) {
    const auto list = lists.find(key);
    keepsModes |= key == "stowage.modes" && value == "kept";
    if (list == lists.end() && key != "pkg.torch.export.ExportedProgram.graph_signature")
      return;
    if (value.size() > kSignatureLimit)
      fail(absl::StrCat("its graph signature is longer than ", kSignatureLimit, " bytes"));
    if (list != lists.end()) {
      list->second = value;
      return;
    }
    try {
      result = parseGraphSignature(value);
    } catch (const Error &error) {
      fail(error.what());
    }
  });
  if (result) {
    try {
      result->nextValues = parseNextValues(lists["stowage.next_values"], *result);
      result->stored = parseStoredTypes(lists["stowage.stored"]);
      result->otherNames = parseOtherNames(lists["stowage.tied"]);
      result->types = parseStoredTypes(lists["stowage.types"]);
    } catch (const Error &error) {
      fail(error.what());
    }
    result->frozen = absl::StrSplit(lists["stowage.frozen"], '\n', absl::SkipEmpty());
    result->keepsModes = keepsModes;
  }
  return result;
}

Graph Loader::branch(::onnx::GraphProto &proto) const {
  Graph result;
  for (auto &initializer : *proto.mutable_initializer()) {
    Tensor value = tensor(initializer);
    result.initializers.emplace(value.name, value);
  }
  int index = 0;
  for (auto &value : *proto.mutable_node())
    result.nodes.push_back(node(value, index++));
  for (const auto &value : proto.input())
    result.inputs.push_back(value.name());
  for (const auto &value : proto.output())
    result.outputs.push_back(value.name());
  return result;
}

Function Loader::function(::onnx::FunctionProto &proto) const {
  Function result;
  for (const auto &opset : proto.opset_import())
    result.opsets[domainOf(opset.domain())] = opset.version();
  result.inputs.assign(proto.input().begin(), proto.input().end());
  result.outputs.assign(proto.output().begin(), proto.output().end());
  forEachDefault(
      proto, [&](::onnx::AttributeProto &attr) { result.defaults[attr.name()] = attribute(attr); });
  int index = 0;
  for (auto &value : *proto.mutable_node())
    result.nodes.push_back(node(value, index++));
  return result;
}

Input Loader::input(const ::onnx::ValueInfoProto &proto) const {
  Input result;
  result.name = proto.name();
  result.isTensor = proto.type().has_tensor_type();
  const auto &type = proto.type().tensor_type();
  result.type = static_cast<ElementType>(type.elem_type());
  if (!type.has_shape())
    return result;
  result.dims.emplace();
  for (const auto &dim : type.shape().dim()) {
    Input::Dim size;
    if (dim.has_dim_value() && dim.dim_value() > 0)
      size.size = dim.dim_value();
    else
      size.symbol = dim.dim_param(); // 0 and -1 are old spellings of "unknown"
    result.dims->push_back(size);
  }
  return result;
}

Model Loader::load() {
  ::onnx::ModelProto proto;
  parse(proto);
  Model model;
  model.fileName = fs::path(path).filename().string();
  for (const auto &opset : proto.opset_import())
    model.opsets[domainOf(opset.domain())] = opset.version();
  model.producer = printable(proto.producer_name(), 64);
  ::onnx::GraphProto &graph = *proto.mutable_graph();
  model.signature = signature(graph);
  for (auto &initializer : *graph.mutable_initializer()) {
    if (initializer.name().empty())
      fail("an initializer has no name");
    Tensor value = tensor(initializer);
    if (!model.initializers.emplace(value.name, value).second)
      fail("initializer '" + value.name + "' is defined twice");
  }
  for (const auto &sparse : graph.sparse_initializer())
    model.obstacles.push_back("initializer '" + sparse.values().name() +
                              "' is sparse; store it dense");
  std::set<std::string> names;
  for (const auto &value : graph.input()) {
    if (value.name().empty() || !names.insert(value.name()).second)
      fail(value.name().empty() ? "an input has no name"
                                : "input '" + value.name() + "' is defined twice");
    if (!model.initializers.count(value.name()))
      model.inputs.push_back(input(value));
  }
  names.clear();
  for (const auto &value : graph.output()) {
    if (value.name().empty() || !names.insert(value.name()).second)
      fail(value.name().empty() ? "an output has no name"
                                : "output '" + value.name() + "' is listed twice");
    model.outputs.push_back(value.name());
  }
  if (model.outputs.empty())
    fail("the graph has no output");
  if (model.signature)
    for (const auto &[output, buffer] : model.signature->nextValues)
      if (!names.contains(output) || !model.initializers.contains(buffer))
        fail(absl::StrCat("its list of next values names the output '", output,
                          "' for the buffer '", buffer, "'; the file lacks ",
                          names.contains(output) ? "that initializer" : "that output"));
  int index = 0;
  for (auto &value : *graph.mutable_node())
    model.nodes.push_back(node(value, index++));
  for (auto &value : *proto.mutable_functions())
    model.functions.emplace(std::pair(domainOf(value.domain()), value.name()), function(value));
  return model;
}

} // namespace

Model load(const std::string &path) { return Loader(path).load(); }

} // namespace stow::onnx
