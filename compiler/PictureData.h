// The data of the HTML page: plans as columns of numbers, and one table of their strings.
//
// A plan's JSON spells every name out at every use. A page may hold the plans of a whole frontier,
// so here each string stands once and a buffer is a row over columns; viewer/README.md lists them.
#pragma once

#include "compiler/StepTimes.h"
#include "runtime/base/Json.h"
#include "runtime/format/Card.h"
#include "runtime/format/Plan.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace stow {

class PictureData {
public:
  /// Adds a plan, with what a run of it took and the card that it is to fit; `label` tells it from
  /// others on the page. Returns its number.
  size_t add(const Plan &plan, const std::string &label, const StepTimes *times = nullptr,
             const std::optional<Card> &card = std::nullopt);

  size_t planCount() const { return plans.size(); }

  /// Further members of the document, e.g. "frontier".
  void set(const std::string &key, Json value) { extras[key] = std::move(value); }

  /// The document: zlib's format of its JSON, in base64.
  std::string packed() const;

  /// The document as JSON.
  Json document() const;

private:
  int64_t idOf(const std::string &text);
  Json bufferColumns(const std::vector<PlannedBuffer> &buffers);
  Json stepColumns(const std::vector<PlannedStep> &steps);

  std::map<std::string, int64_t> numbers; ///< of strings
  std::vector<std::string> strings;
  std::vector<Json> plans;
  Json extras = Json::object();
};

/// `bytes` in base64, with padding.
std::string toBase64(std::string_view bytes);

} // namespace stow
