// Data sets on disk: .npz archives and single .npy arrays.
#pragma once

#include "runtime/base/Layout.h"
#include "runtime/data/Element.h"
#include "runtime/data/MappedFile.h"
#include "runtime/data/Zip.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace stow {

/// A row-major array. Dimension 0 counts the samples; one sample is a row.
struct Array {
  std::string name;
  std::string place; ///< "digits.npz: x", for messages
  ElementType type;
  Shape shape;
  std::span<const char> bytes; ///< not aligned
  std::shared_ptr<const void> owner;

  int64_t rowCount() const { return shape.empty() ? 0 : shape[0]; }
  int64_t rowElements() const;
  const char *row(int64_t index) const { return bytes.data() + index * rowElements() * type.bytes; }
};

/// "f32[1437,1,8,8]".
std::string describe(const Array &array);

class ArrayFile {
public:
  /// Reads the list of arrays. Throws Error(BadInput) naming the file for what is neither .npz nor
  /// .npy. A single .npy holds one array named after the file.
  explicit ArrayFile(const std::string &path);

  const std::string &path() const { return file->path(); }
  const std::vector<std::string> &names() const { return arrayNames; }
  bool has(const std::string &name) const;

  /// Arrays that lie uncompressed in the file stay there and are read as rows are used; others are
  /// inflated here. Throws Error(BadInput) naming the arrays there are.
  Array load(const std::string &name) const;

private:
  std::shared_ptr<MappedFile> file;
  std::vector<std::string> arrayNames;
  std::vector<ZipEntry> entries; ///< as arrayNames; empty for a single .npy
};

} // namespace stow
