#include "compiler/Picture.h"
#include "runtime/base/Error.h"

#include <cstddef>
#include <string_view>

namespace stow {

// Written by viewer/build.py.
extern const unsigned char picturePage[];
extern const std::size_t picturePageSize;

std::string drawPage(const PictureData &data) {
  constexpr std::string_view place = "<!--DATA-->";
  const std::string_view page(reinterpret_cast<const char *>(picturePage), picturePageSize);
  const size_t at = page.find(place);
  if (at == std::string_view::npos)
    throw Error::internal("the page of viewer/ has no place for data");
  std::string text(page.substr(0, at));
  text += data.packed();
  return text += page.substr(at + place.size());
}

std::string drawPlan(const Plan &plan, const std::optional<Card> &card) {
  PictureData data;
  data.add(plan, "", nullptr, card);
  return drawPage(data);
}

std::string drawTimes(const Plan &plan, const StepTimes &times, const std::optional<Card> &card) {
  PictureData data;
  data.add(plan, "", &times, card);
  return drawPage(data);
}

std::string drawComparison(const LabelledPlan &before, const LabelledPlan &after) {
  PictureData data;
  for (const LabelledPlan &each : {before, after})
    data.add(each.plan, each.label, nullptr, each.card);
  data.set("compare", true);
  return drawPage(data);
}

} // namespace stow
