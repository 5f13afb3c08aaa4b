#include "tests/runtime/device/GuardedMemory.h"

#include "runtime/base/Error.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <string_view>

#include <sys/mman.h>
#include <unistd.h>

namespace stow::test {

namespace {

/// A view with the closed page before and the one behind it.
struct View {
  std::atomic<const char *> name = nullptr; ///< null: free
  char *base = nullptr;
  Bytes bytes = 0;
};

std::array<View, 64> views;
std::mutex viewsMutex;
char activityText[512] = "";

void print(std::string_view text) {
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

void printNumber(Bytes number) {
  if (number < 0) {
    print("-");
    number = -number;
  }
  char digits[24];
  size_t at = sizeof(digits);
  do
    digits[--at] = static_cast<char>('0' + number % 10);
  while (number /= 10);
  print({digits + at, sizeof(digits) - at});
}

/// Calls nothing that a signal handler must not. The access is repeated after it and ends the
/// process, since the default action is back.
void onFault(int, siginfo_t *info, void *) {
  const char *address = static_cast<const char *>(info->si_addr);
  for (const View &view : views) {
    const char *name = view.name;
    if (!name || address < view.base - GuardedMemory::pageBytes ||
        address >= view.base + view.bytes + GuardedMemory::pageBytes)
      continue;
    print("guarded device: byte ");
    printNumber(address - view.base);
    print(" of ");
    print(name);
    print(" is touched ");
    print(activityText[0] ? activityText : "outside every call of the device");
    print("\n");
  }
  std::signal(SIGSEGV, SIG_DFL);
}

void installHandler() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action = {};
    action.sa_sigaction = onFault;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, nullptr);
  });
}

} // namespace

GuardedMemory::GuardedMemory(const char *name, Bytes bytes)
    : mappedBytes(alignUp(std::max<Bytes>(bytes, 1), pageBytes)) {
  installHandler();
  auto size = static_cast<size_t>(mappedBytes);
  auto fail = [&] {
    throw Error::badInput("guarded memory of " + formatBytesExact(bytes) + ": " +
                          std::strerror(errno));
  };
  void *own = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  void *room = mmap(nullptr, size + 2 * pageBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (own == MAP_FAILED || room == MAP_FAILED)
    fail();
  ownBase = static_cast<char *>(own);
  viewBase = static_cast<char *>(room) + pageBytes;
  // Of length 0, a shared mapping is not moved: its pages get a second address.
  if (mremap(own, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, viewBase) == MAP_FAILED)
    fail();
  allow(0, mappedBytes, Access::None);
  std::lock_guard lock(viewsMutex);
  auto free = std::ranges::find_if(views, [](const View &view) { return !view.name; });
  if (free == views.end())
    throw Error::internal("too many guarded memories at once");
  slot = static_cast<size_t>(free - views.begin());
  free->base = viewBase;
  free->bytes = mappedBytes;
  free->name = name;
}

GuardedMemory::~GuardedMemory() {
  views[slot].name = nullptr;
  munmap(ownBase, static_cast<size_t>(mappedBytes));
  munmap(viewBase - pageBytes, static_cast<size_t>(mappedBytes + 2 * pageBytes));
}

void GuardedMemory::allow(Bytes begin, Bytes end, Access access) const {
  if (begin >= end)
    return;
  Bytes first = begin / pageBytes * pageBytes;
  constexpr int flags[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE};
  if (mprotect(viewBase + first, static_cast<size_t>(alignUp(end, pageBytes) - first),
               flags[static_cast<int>(access)]) != 0)
    throw Error::internal(std::string("mprotect: ") + std::strerror(errno));
}

void GuardedMemory::setActivity(const std::string &activity) {
  size_t length = std::min(activity.size(), sizeof(activityText) - 1);
  std::memcpy(activityText, activity.data(), length);
  activityText[length] = 0;
}

} // namespace stow::test
