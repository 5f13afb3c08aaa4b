// The safetensors format: named row-major tensors and string metadata.
//
//   u64 n | n bytes of JSON: {"__metadata__": {...}, "name": {"dtype", "shape", "data_offsets"}} |
//   data
#pragma once

#include "runtime/base/Layout.h"
#include "runtime/data/MappedFile.h"

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace stow {

/// A tensor of an open file; the bytes lie in the file's mapping and need not be aligned.
struct SafetensorsTensor {
  std::string name;
  DType dtype = DType::F32;
  Shape shape;
  std::span<const char> bytes;
};

class SafetensorsFile {
public:
  /// Maps and checks the file: every tensor lies inside it and has the bytes its shape asks for.
  /// Throws Error(BadInput) naming file and tensor.
  explicit SafetensorsFile(const std::string &path);

  const std::string &path() const { return file.path(); }
  const std::vector<SafetensorsTensor> &tensors() const { return list; } ///< as in the header
  const SafetensorsTensor *find(const std::string &name) const;          ///< null when absent
  const std::map<std::string, std::string> &metadata() const { return strings; }
  /// Tensors of the format's other types (8 bits and fewer, integers), which nothing here reads: name and type.
  const std::map<std::string, std::string> &foreign() const { return others; }

private:
  MappedFile file;
  std::vector<SafetensorsTensor> list;
  std::map<std::string, size_t> byName;
  std::map<std::string, std::string> strings, others;
};

/// What to write; names are unique.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::F32;
  Shape shape;
};

/// Where what is written goes in its file.
struct SafetensorsLayout {
  std::string head; ///< what the file begins with, up to the data
  std::vector<size_t>
      order; ///< of the entries: wider elements first, then as given, so that every tensor is aligned to its element
  std::vector<Bytes> begins; ///< by entry, counted from the data's beginning
};
SafetensorsLayout layOut(const std::vector<SafetensorsEntry> &entries,
                         const std::map<std::string, std::string> &metadata);

/// Row-major bytes of entry `index` from byte `begin` on: all of the rest or the next piece, valid
/// until the next call. Called in file order, so that a writer needs one piece at a time.
using SafetensorsSource = std::function<std::span<const char>(size_t index, Bytes begin)>;

/// Replaces `path` in one step (AtomicFile).
void writeSafetensors(const std::string &path, const std::vector<SafetensorsEntry> &entries,
                      const std::map<std::string, std::string> &metadata,
                      const SafetensorsSource &source);

} // namespace stow
