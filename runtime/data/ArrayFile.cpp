#include "runtime/data/ArrayFile.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/data/Npy.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

namespace stow {

int64_t Array::rowElements() const {
  int64_t count = 1;
  for (size_t i = 1; i < shape.size(); ++i)
    count *= shape[i];
  return count;
}

std::string describe(const Array &array) {
  return concat(nameOf(array.type), "[", joined(array.shape, ","), "]");
}

ArrayFile::ArrayFile(const std::string &path) : file(std::make_shared<MappedFile>(path)) {
  std::string_view start(file->bytes().data(), std::min<size_t>(file->bytes().size(), 6));
  if (start == std::string_view("\x93NUMPY", 6)) {
    arrayNames.push_back(std::filesystem::path(path).stem().string());
    return;
  }
  for (ZipEntry &entry : readZipDirectory(file->bytes(), path)) {
    constexpr std::string_view suffix = ".npy";
    if (!entry.name.ends_with(suffix))
      continue;
    arrayNames.push_back(entry.name.substr(0, entry.name.size() - suffix.size()));
    entries.push_back(std::move(entry));
  }
  if (entries.empty())
    throw Error::badInput(path + ": the archive holds no .npy arrays");
}

bool ArrayFile::has(const std::string &name) const {
  return std::ranges::find(arrayNames, name) != arrayNames.end();
}

Array ArrayFile::load(const std::string &name) const {
  auto found = std::ranges::find(arrayNames, name);
  if (found == arrayNames.end())
    throw Error::badInput(
        concat(path(), ": there is no array '", name, "'; it holds ", joined(arrayNames, ", ")));
  Array array;
  array.name = name;
  array.place = path() + ": " + name;
  array.bytes = file->bytes();
  array.owner = file;
  if (!entries.empty()) {
    ZipContents contents = readZipEntry(file->bytes(), entries[found - arrayNames.begin()], path());
    array.bytes = contents.bytes;
    if (contents.owner)
      array.owner = contents.owner;
  }
  NpyHeader header = readNpyHeader(array.bytes, array.place);
  array.type = header.type;
  array.shape = header.shape;
  array.bytes = array.bytes.subspan(header.headerBytes);
  return array;
}

} // namespace stow
