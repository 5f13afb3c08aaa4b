#include "compiler/FatalErrors.h"

#include "runtime/base/Error.h"
#include "runtime/base/Signals.h"

#include "llvm/Support/ErrorHandling.h"

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string_view>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

namespace stow {

namespace {

/// Only what a signal handler may call.
void say(std::string_view text) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

[[noreturn]] void end(std::string_view message, ErrorKind kind) {
  removeUnfinished();
  say(message);
  ::_exit(static_cast<int>(kind));
}

[[noreturn]] void endWithoutMemory() {
  end("error: no memory is left for the compilation, of this machine's or within a limit that is "
      "set for "
      "this process (ulimit -v)\n",
      ErrorKind::BadInput);
}

[[noreturn]] void endFatally(void *, const char *reason, bool) {
  say("error: internal: ");
  say(reason);
  end("\n", ErrorKind::Internal);
}

bool isMemoryLeft() {
  constexpr size_t some = size_t{32} << 20;
  void *memory = ::mmap(nullptr, some, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory != MAP_FAILED && ::munmap(memory, some) == 0;
}

/// Whether the address lies where the stack would have gone on.
bool isBelowStack(const void *address, const void *context) {
  const auto &registers = static_cast<const ucontext_t *>(context)->uc_mcontext;
#if defined(__x86_64__)
  const auto top = static_cast<uint64_t>(registers.gregs[REG_RSP]);
#else
  const auto top = static_cast<uint64_t>(registers.sp);
#endif
  constexpr uint64_t frame = uint64_t{1} << 20;
  return reinterpret_cast<uint64_t>(address) - top + frame < 2 * frame;
}

void crash(int signal, siginfo_t *info, void *context) {
  if (!isMemoryLeft())
    endWithoutMemory();
  if (signal == SIGSEGV && isBelowStack(info->si_addr, context))
    end("error: the stack of this process is used up: the model nests too deeply, or a limit that "
        "is set "
        "for this process is too small (ulimit -s, -v)\n",
        ErrorKind::BadInput);
  say("error: internal: the compiler crashed; please report it with the command and the model\n");
  endBySignal(signal);
}

} // namespace

void reportFatalErrors() {
  std::set_new_handler(endWithoutMemory);
  llvm::install_bad_alloc_error_handler([](void *, const char *, bool) { endWithoutMemory(); });
  llvm::install_fatal_error_handler(endFatally);
  if (!std::string_view(STOWAGE_SANITIZE).empty()) // which reports crashes itself
    return;
  alignas(16) static char ownStack[1 << 16]; // the process's own may be what is used up
  const stack_t stack = {ownStack, 0, sizeof ownStack};
  ::sigaltstack(&stack, nullptr);
  struct sigaction action = {};
  action.sa_sigaction = crash;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
    ::sigaction(signal, &action, nullptr);
}

} // namespace stow
