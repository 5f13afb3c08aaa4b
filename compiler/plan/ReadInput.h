// How the commands on bare instances read their file.
#pragma once

#include "runtime/base/Error.h"
#include "runtime/base/InputFile.h"

#include <iostream>
#include <sstream>
#include <string>

namespace stow {

/// The contents of `path`; "-" is standard input. Throws Error(BadInput) naming the file.
inline std::string readInput(const std::string &path) {
  if (path == "-") {
    std::ostringstream text;
    text << std::cin.rdbuf();
    return text.str();
  }
  return readInputFile(path);
}

/// Takes the word that names the file. Throws Error(BadInput) at a second one.
inline void takeInput(std::string &input, const std::string &word) {
  if (!input.empty())
    throw Error::badInput("two input files, '" + input + "' and '" + word + "'; expected one");
  input = word;
}

/// Throws Error(BadInput) where no file was named.
inline void requireInput(const std::string &input) {
  if (input.empty())
    throw Error::badInput("no input file; --help shows the usage");
}

/// What messages call that file.
inline std::string inputName(const std::string &path) {
  return path == "-" ? "standard input" : path;
}

} // namespace stow
