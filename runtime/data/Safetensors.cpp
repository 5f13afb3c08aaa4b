#include "runtime/data/Safetensors.h"

#include "runtime/base/AtomicFile.h"
#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/base/Json.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <string_view>

namespace stow {

namespace {

constexpr std::string_view metadataKey = "__metadata__";

constexpr std::array<std::pair<DType, std::string_view>, 8> typeNames = {{
    {DType::F64, "F64"},
    {DType::F32, "F32"},
    {DType::F16, "F16"},
    {DType::BF16, "BF16"},
    {DType::I64, "I64"},
    {DType::I32, "I32"},
    {DType::U8, "U8"},
    {DType::I1, "BOOL"},
}};

std::string_view safetensorsName(DType type) {
  return std::ranges::find(typeNames, type, &std::pair<DType, std::string_view>::first)->second;
}

/// What the format knows beside that.
constexpr std::array<std::string_view, 14> foreignTypes = {
    "I8",      "I16",         "U16",         "U32",     "U64",     "C64",     "F8_E5M2",
    "F8_E4M3", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F8_E8M0", "F6_E2M3", "F6_E3M2", "F4"};

DType parseSafetensorsType(const std::string &text) {
  for (const auto &[type, name] : typeNames)
    if (name == text)
      return type;
  throw Error::badInput("expected F64, F32, F16, BF16, I64, I32, U8 or BOOL, found '" + text + "'");
}

SafetensorsTensor tensorFrom(const std::string &name, const JsonNode &node,
                             std::span<const char> data) {
  SafetensorsTensor tensor;
  tensor.name = name;
  tensor.dtype = node.parsed("dtype", parseSafetensorsType);
  tensor.shape = node.counts("shape");
  std::vector<int64_t> offsets = node.counts("data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1] ||
      static_cast<uint64_t>(offsets[1]) > data.size())
    node.fail("data_offsets",
              concat("expected [begin, end] inside the ", data.size(), " bytes of data"));
  int64_t expected = sizeOf(tensor.dtype);
  for (int64_t dim : tensor.shape)
    if (__builtin_mul_overflow(expected, dim, &expected))
      node.fail("shape", "the tensor is too large");
  if (expected != offsets[1] - offsets[0])
    node.fail("data_offsets", concat("expected ", expected, " bytes for dtype and shape, found ",
                                     offsets[1] - offsets[0]));
  tensor.bytes = data.subspan(offsets[0], expected);
  return tensor;
}

} // namespace

SafetensorsFile::SafetensorsFile(const std::string &path) : file(path) {
  std::span<const char> bytes = file.bytes();
  uint64_t headerBytes = 0;
  if (bytes.size() >= sizeof(headerBytes))
    std::memcpy(&headerBytes, bytes.data(), sizeof(headerBytes));
  if (std::string_view(bytes.data(), bytes.size()).starts_with("version https://git-lfs"))
    throw Error::badInput(path + ": this is a pointer of Git LFS in the place of the file; fetch "
                                 "the file itself: git lfs pull");
  if (bytes.size() < sizeof(headerBytes) || headerBytes > bytes.size() - sizeof(headerBytes))
    throw Error::badInput(concat(path, ": this is not a safetensors file: its header of ",
                                 headerBytes, " bytes ends beyond the file"));
  std::string_view text(bytes.data() + sizeof(headerBytes), headerBytes);
  Json json = parseJson(text, path);
  std::span<const char> data = bytes.subspan(sizeof(headerBytes) + headerBytes);
  JsonNode(json, path).forEachMember([&](const std::string &name, const JsonNode &node) {
    if (name == metadataKey) {
      node.forEachMember(
          [&](const std::string &key, const JsonNode &value) { strings[key] = value.asText(); });
      return;
    }
    if (const std::string type = node.text("dtype");
        std::ranges::find(foreignTypes, type) != foreignTypes.end()) {
      others[name] = type;
      return;
    }
    byName[name] = list.size();
    list.push_back(tensorFrom(name, node, data));
  });
}

const SafetensorsTensor *SafetensorsFile::find(const std::string &name) const {
  auto found = byName.find(name);
  return found == byName.end() ? nullptr : &list[found->second];
}

SafetensorsLayout layOut(const std::vector<SafetensorsEntry> &entries,
                         const std::map<std::string, std::string> &metadata) {
  SafetensorsLayout layout;
  layout.order.resize(entries.size());
  layout.begins.resize(entries.size());
  std::iota(layout.order.begin(), layout.order.end(), size_t{0});
  std::ranges::sort(layout.order, [&](size_t a, size_t b) {
    Bytes first = sizeOf(entries[a].dtype), second = sizeOf(entries[b].dtype);
    return first != second ? first > second : a < b;
  });
  Json header = Json::object();
  if (!metadata.empty())
    header[std::string(metadataKey)] = metadata;
  int64_t offset = 0;
  for (size_t index : layout.order) {
    const SafetensorsEntry &entry = entries[index];
    if (entry.name == metadataKey || header.contains(entry.name))
      throw Error::internal("two tensors to save are named '" + entry.name + "'");
    int64_t end = offset + elementCount(entry.shape) * sizeOf(entry.dtype);
    Json item;
    item["dtype"] = safetensorsName(entry.dtype);
    item["shape"] = entry.shape;
    item["data_offsets"] = {offset, end};
    header[entry.name] = std::move(item);
    layout.begins[index] = offset;
    offset = end;
  }
  std::string text = dumpJson(header, -1);
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t headerBytes = text.size();
  layout.head.assign(reinterpret_cast<const char *>(&headerBytes), sizeof(headerBytes));
  layout.head += text;
  return layout;
}

void writeSafetensors(const std::string &path, const std::vector<SafetensorsEntry> &entries,
                      const std::map<std::string, std::string> &metadata,
                      const SafetensorsSource &source) {
  const SafetensorsLayout layout = layOut(entries, metadata);
  AtomicFile file(path);
  file.write(layout.head);
  for (size_t index : layout.order) {
    const Bytes size = elementCount(entries[index].shape) * sizeOf(entries[index].dtype);
    for (Bytes begin = 0; begin < size;) {
      std::span<const char> piece = source(index, begin);
      begin += static_cast<Bytes>(piece.size());
      if (piece.empty() || begin > size)
        throw Error::internal(concat("the bytes of tensor '", entries[index].name, "' end at ",
                                     begin, ", not at ", size));
      file.write(piece.data(), piece.size());
    }
  }
  file.commit();
}

} // namespace stow
