// Damage to files, as a fuzzer does it.
#pragma once

#include <random>
#include <string>

namespace stow {

/// Changes `bytes` in one to three places: a random byte, a flipped bit, a telling value, a deleted
/// or a repeated stretch. Never leaves it empty.
inline void mutate(std::string &bytes, std::mt19937 &random) {
  auto draw = [&](size_t limit) { return static_cast<size_t>(random() % limit); };
  for (size_t change = draw(3); change < 3 && !bytes.empty(); ++change) {
    size_t at = draw(bytes.size());
    switch (draw(5)) {
    case 0:
      bytes[at] = static_cast<char>(draw(256));
      break;
    case 1:
      bytes[at] = static_cast<char>(bytes[at] ^ 1 << draw(8));
      break;
    case 2:
      bytes[at] = "\x00\x01\x7f\x80\xff"[draw(5)];
      break;
    case 3:
      bytes.erase(at, 1 + draw(8));
      break;
    default:
      bytes.insert(at, bytes.substr(draw(bytes.size()), 1 + draw(16)));
      break;
    }
  }
  if (bytes.empty())
    bytes = "x";
}

} // namespace stow
