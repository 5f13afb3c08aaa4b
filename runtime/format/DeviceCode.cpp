#include "runtime/format/DeviceCode.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace stow {
namespace {

constexpr std::string_view kMagic = "STOWGPU1";
constexpr uint64_t kImageAlignment = 64;

struct Header {
  char magic[8];
  uint64_t count;
};

struct Entry {
  uint32_t kind, architecture;
  uint64_t offset, bytes;
};

std::string nameOf(uint32_t architecture) { return concat("sm_", architecture); }

} // namespace

uint32_t architectureNumber(std::string_view name) {
  const bool named = name.size() > 3 && name.size() <= 6 && name.substr(0, 3) == "sm_";
  uint32_t number = 0;
  for (char digit : named ? name.substr(3) : std::string_view("x")) {
    if (digit < '0' || digit > '9')
      throw Error::badInput("\"" + std::string(name) + "\" is no architecture such as sm_90");
    number = 10 * number + static_cast<uint32_t>(digit - '0');
  }
  return number;
}

std::string packDeviceCode(std::span<const DeviceImage> images) {
  std::string code(sizeof(Header) + images.size() * sizeof(Entry), '\0');
  for (size_t i = 0; i < images.size(); ++i) {
    code.resize((code.size() + kImageAlignment - 1) / kImageAlignment * kImageAlignment);
    const Entry entry = {static_cast<uint32_t>(images[i].kind), images[i].architecture, code.size(),
                         images[i].bytes.size()};
    code += images[i].bytes;
    std::memcpy(code.data() + sizeof(Header) + i * sizeof(Entry), &entry, sizeof(Entry));
  }
  Header header = {};
  kMagic.copy(header.magic, sizeof(header.magic));
  header.count = images.size();
  std::memcpy(code.data(), &header, sizeof(header));
  return code;
}

std::vector<DeviceImage> unpackDeviceCode(std::span<const char> code) {
  auto damaged = [] {
    return Error::badInput("the executable's code for GPUs is damaged; compile the model again");
  };
  Header header;
  if (code.size() < sizeof(header))
    throw damaged();
  std::memcpy(&header, code.data(), sizeof(header));
  if (std::string_view(header.magic, sizeof(header.magic)) != kMagic ||
      header.count > (code.size() - sizeof(header)) / sizeof(Entry))
    throw damaged();
  std::vector<DeviceImage> images;
  for (uint64_t i = 0; i < header.count; ++i) {
    Entry entry;
    std::memcpy(&entry, code.data() + sizeof(header) + i * sizeof(entry), sizeof(entry));
    const auto kind = static_cast<DeviceImage::Kind>(entry.kind);
    if ((kind != DeviceImage::Kind::Cubin && kind != DeviceImage::Kind::Ptx) ||
        entry.offset > code.size() || entry.bytes > code.size() - entry.offset)
      throw damaged();
    images.push_back({kind, entry.architecture, {code.data() + entry.offset, entry.bytes}});
  }
  return images;
}

std::vector<DeviceImage> loadableOn(std::span<const DeviceImage> images, uint32_t architecture) {
  std::vector<DeviceImage> loadable;
  for (const DeviceImage &image : images) {
    const bool isCubin = image.kind == DeviceImage::Kind::Cubin;
    if (image.architecture <= architecture &&
        (!isCubin || image.architecture / 10 == architecture / 10))
      loadable.push_back(image);
  }
  std::stable_sort(loadable.begin(), loadable.end(), [](const auto &a, const auto &b) {
    return a.kind != b.kind ? a.kind < b.kind : a.architecture > b.architecture;
  });
  return loadable;
}

std::string describe(std::span<const DeviceImage> images) {
  std::vector<std::string> cubins, ptx;
  for (const DeviceImage &image : images)
    (image.kind == DeviceImage::Kind::Cubin ? cubins : ptx).push_back(nameOf(image.architecture));
  std::string text = cubins.empty() ? "" : "cubins for " + joined(cubins);
  if (!ptx.empty())
    text += (text.empty() ? "" : ", ") + ("PTX for " + joined(ptx));
  return text.empty() ? "none" : text;
}

} // namespace stow
