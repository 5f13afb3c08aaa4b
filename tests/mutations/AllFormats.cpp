#include "tests/mutations/Campaign.h"

namespace stow::test {

std::vector<Format> allFormats() {
  std::vector<Format> formats = runtimeFormats();
  auto add = [&](std::vector<Format> more) {
    formats.insert(formats.end(), std::make_move_iterator(more.begin()),
                   std::make_move_iterator(more.end()));
  };
  add(bareFormats());
#ifdef STOWAGE_MLIR
  add(compilerFormats());
#endif
  return formats;
}

} // namespace stow::test
