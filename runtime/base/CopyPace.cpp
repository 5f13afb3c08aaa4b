#include "runtime/base/CopyPace.h"

#include "runtime/base/CommandLine.h"
#include "runtime/base/Error.h"

#include <algorithm>
#include <ranges>
#include <vector>

namespace stow {

CopySpeed parseCopySpeed(const std::string &text) {
  std::vector<double> numbers;
  for (const auto part : std::views::split(text, ','))
    numbers.push_back(parseReal("offload-bandwidth", std::string(part.begin(), part.end())));
  auto isBandwidth = [](double number) { return number >= 0.001 && number <= 1e5; };
  if (numbers.empty() || numbers.size() > 3 ||
      !std::ranges::all_of(numbers | std::views::take(2), isBandwidth) ||
      (numbers.size() == 3 && !(numbers[2] >= 0 && numbers[2] <= 1e6)))
    throw Error::badInput("--offload-bandwidth: expected gigabytes a second out and in, from 0.001 "
                          "to 100000, and perhaps the microseconds that a copy takes beside them, "
                          "as 2.5 or 1.2,2.5 or 1.2,2.5,150; found \"" +
                          text + "\"");
  return {numbers[0], numbers[numbers.size() > 1],
          numbers.size() > 2 ? std::optional(numbers[2]) : std::nullopt};
}

} // namespace stow
