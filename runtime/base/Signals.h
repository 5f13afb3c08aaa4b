// What a signal that ends the process leaves behind: nothing.
#pragma once

#include <string>

namespace stow {

/// Notes a file, or a folder of files, that is there only while work on it goes on. Whoever makes it
/// removes it; a signal that ends the process before removes it where takeSignals() was called. Beyond
/// 64 at once they are left to their makers.
void addUnfinished(const std::string &path);
void forgetUnfinished(const std::string &path);

/// Removes all that is unfinished. Signal handlers may call it.
void removeUnfinished();

/// Removes what is unfinished and ends the process as `signal` does by itself. Signal handlers may call it.
[[noreturn]] void endBySignal(int signal);

/// For the main function of a tool: SIGINT, SIGTERM and SIGHUP, where they are not ignored, end the
/// process by endBySignal, and a write beyond a limit on file sizes fails in place of killing it.
void takeSignals();

} // namespace stow
