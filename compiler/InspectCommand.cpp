// `stowage inspect`: asks the executable for the plan it carries.
#include "compiler/Commands.h"
#include "runtime/base/Error.h"

#include <filesystem>
#include <sys/wait.h>
#include <unistd.h>

namespace stow {

int inspectCommand(const std::vector<std::string> &arguments) {
  std::string path;
  std::vector<std::string> flags;
  for (const std::string &word : arguments)
    if (word.starts_with("-"))
      flags.push_back(word);
    else if (path.empty())
      path = word;
    else
      throw Error::badInput("two executables given: \"" + path + "\" and \"" + word + "\"");
  if (path.empty())
    throw Error::badInput("no executable given; expected one that stowage compile has written");
  if (!std::filesystem::exists(path))
    throw Error::badInput("no file \"" + path + "\"");
  std::string absolute = std::filesystem::absolute(path).string(), command = "plan";
  std::vector<char *> words = {absolute.data(), command.data()};
  for (std::string &flag : flags)
    words.push_back(flag.data());
  words.push_back(nullptr);
  execv(absolute.c_str(), words.data());
  throw Error::badInput("cannot run \"" + path + "\"; expected an executable that stowage compile "
                        "has written");
}

} // namespace stow
