// Writes Python's pickle format, protocol 4, with the few opcodes that plain data need.
//
//   PickleWriter pickle;
//   pickle.beginDict();
//   pickle.text("sizes");
//   pickle.beginList();
//   pickle.integer(512);
//   pickle.endList();
//   pickle.endDict();
//   pickle.finish();        -> b'...' that pickle.loads reads as {"sizes": [512]}
//
// A string is written once and recalled after that. Long lists go in batches of a thousand, as
// Python writes them: readers put a batch on a stack.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace stow {

class PickleWriter {
public:
  PickleWriter();

  /// Elements follow: values for a list; key, value, ... for a dictionary.
  void beginList() { begin(']'); }
  void endList() { end('e'); }
  void beginDict() { begin('}'); }
  void endDict() { end('u'); }

  void integer(int64_t value);
  void boolean(bool value);
  void text(std::string_view value); ///< UTF-8; other bytes are replaced

  /// The pickle. Every container must have been ended.
  std::string finish();

private:
  struct Container {
    char append = 0;    ///< opcode that takes the elements off the stack
    int64_t values = 0; ///< since the last of these opcodes
  };
  void begin(char empty);
  void end(char append);
  void count(); ///< notes one value of the container at hand
  void bytes(uint64_t value, int number);

  std::string out;
  std::vector<Container> open;
  std::unordered_map<std::string, uint32_t> known; ///< numbers of the strings written
};

} // namespace stow
