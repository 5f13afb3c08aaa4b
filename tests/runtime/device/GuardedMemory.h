// Memory with two addresses: one for its owner, always accessible, and a view for others, which is
// inaccessible except where and while the owner opens it. Whoever touches a closed byte of a view
// ends the process with a message that names the memory, the byte and what was being done.
#pragma once

#include "runtime/base/Bytes.h"

#include <string>

namespace stow::test {

class GuardedMemory {
public:
  enum class Access : int { None, Read, ReadWrite };

  static constexpr Bytes pageBytes = 4096;

  /// `name` is "the arena" in the message.
  GuardedMemory(const char *name, Bytes bytes);
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory &) = delete;
  GuardedMemory &operator=(const GuardedMemory &) = delete;

  char *own() const { return ownBase; }
  char *view() const { return viewBase; }
  Bytes pages() const { return mappedBytes; } ///< bytes of whole pages, all of them the owner's

  /// Sets what the view allows on the pages that [begin, end) touches.
  void allow(Bytes begin, Bytes end, Access access) const;

  /// What the message says is being done; nothing at first and after "".
  static void setActivity(const std::string &activity);

private:
  Bytes mappedBytes = 0;
  char *ownBase = nullptr;
  char *viewBase = nullptr;
  size_t slot = 0; ///< in the table that the fault handler reads
};

} // namespace stow::test
