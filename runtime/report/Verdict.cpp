#include "runtime/report/Verdict.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/format/PlanJson.h"
#include "runtime/format/PrintableText.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace stow {

Card cardOfSize(Bytes stated) {
  constexpr Bytes half = Bytes{512} << 20;
  return {"card", stated - stated / 64, half, half};
}

Verdict judge(const Plan &plan, const Card &card) {
  Verdict verdict;
  verdict.card = card;
  verdict.arenaBytes = plan.arenaBytes;
  verdict.processBytes = plan.outsideArenaBytes > 0 ? plan.outsideArenaBytes : card.processBytes;
  verdict.usableBytes = std::max<Bytes>(card.bytes - card.systemBytes - verdict.processBytes, 0);
  return verdict;
}

Verdict judgeAlone(const Plan &plan, const Card &card) {
  Verdict verdict = judge(plan, card);
  if (!verdict.fits())
    verdict.remedies = remediesOf(plan);
  return verdict;
}

std::string verdictLine(const Verdict &verdict) {
  std::string text;
  if (verdict.eagerBytes)
    text = concat("PyTorch eager", verdict.eagerTypes.empty() ? "" : " in " + verdict.eagerTypes,
                  ": ", formatBytes(*verdict.eagerBytes), "; ");
  return text + concat("Stowage: ", formatBytes(verdict.arenaBytes), "; ",
                       printableText(verdict.card.name), ": ", formatBytes(verdict.card.bytes),
                       " (", formatBytes(verdict.usableBytes), " usable): ",
                       verdict.fits()
                           ? "fits, " + formatBytes(verdict.spareBytes()) + " to spare"
                           : "does not fit, " + formatBytes(-verdict.spareBytes()) + " too much");
}

std::string renderVerdict(const Verdict &verdict) {
  std::string text = verdictLine(verdict) + "\n";
  if (!verdict.remedies.empty())
    text += "remedies" + (verdict.remediesOf.empty() ? "" : " " + verdict.remediesOf) +
            ", by what they gain:\n" + renderRemedies(verdict.remedies);
  if (!verdict.remedyMissing.empty())
    text += verdict.remedyMissing + "\n";
  if (!verdict.eagerNote.empty())
    text += "PyTorch eager: " + printableText(verdict.eagerNote, 1000) + "\n";
  return text + concat("usable: ", formatBytes(verdict.card.bytes), " less ",
                       formatBytes(verdict.card.systemBytes),
                       " for a desktop, a system or what else is there, and ",
                       formatBytes(verdict.processBytes),
                       " for the process beside its arena (docs/memory-budget.md says which are "
                       "estimates)\n");
}

Json toJsonValue(const Verdict &verdict) {
  Json json;
  json["text"] = verdictLine(verdict);
  json["fits"] = verdict.fits();
  json["arena_bytes"] = verdict.arenaBytes;
  json["spare_bytes"] = verdict.spareBytes();
  json["card"] = verdict.card.name;
  json["card_bytes"] = verdict.card.bytes;
  json["system_bytes"] = verdict.card.systemBytes;
  json["process_bytes"] = verdict.processBytes;
  json["usable_bytes"] = verdict.usableBytes;
  if (verdict.eagerBytes)
    json["pytorch_eager_bytes"] = *verdict.eagerBytes;
  if (!verdict.eagerTypes.empty())
    json["pytorch_eager_types"] = verdict.eagerTypes;
  if (!verdict.eagerNote.empty())
    json["pytorch_eager_note"] = verdict.eagerNote;
  if (!verdict.remediesOf.empty())
    json["remedies_of"] = verdict.remediesOf;
  if (!verdict.remedyMissing.empty())
    json["remedies_missing"] = verdict.remedyMissing;
  json["remedies"] = Json::array();
  for (const Remedy &remedy : verdict.remedies) {
    Json item;
    item["text"] = remedy.text;
    item["gain_bytes"] = remedy.gain;
    item["changes_results"] = nameOf(remedy.changes);
    json["remedies"].push_back(std::move(item));
  }
  return json;
}

Verdict verdictFrom(const JsonNode &node) {
  Verdict verdict;
  verdict.card = {node.text("card"), node.count("card_bytes"), node.count("system_bytes"),
                  node.count("process_bytes")};
  verdict.arenaBytes = node.count("arena_bytes");
  verdict.processBytes = node.count("process_bytes");
  verdict.usableBytes = node.count("usable_bytes");
  if (node.has("pytorch_eager_bytes"))
    verdict.eagerBytes = node.count("pytorch_eager_bytes");
  for (auto [key, text] : {std::pair{"pytorch_eager_types", &verdict.eagerTypes},
                           {"pytorch_eager_note", &verdict.eagerNote},
                           {"remedies_of", &verdict.remediesOf},
                           {"remedies_missing", &verdict.remedyMissing}})
    if (node.has(key))
      *text = node.text(key);
  node.forEach("remedies", [&](const JsonNode &remedy) {
    verdict.remedies.push_back({remedy.count("gain_bytes"), remedy.text("text"),
                                remedy.parsed("changes_results", parseChanges)});
  });
  return verdict;
}

std::optional<std::string> renderJudged(const Plan &plan, const Verdict &verdict,
                                        std::string_view format, const ReportOptions &options) {
  if (format == "text")
    return renderVerdict(verdict) + "\n" + renderText(plan, options);
  if (format != "json")
    return std::nullopt;
  Json json = toJsonValue(plan);
  json["verdict"] = toJsonValue(verdict);
  return dumpJsonLines(json) + "\n";
}

void requireFit(const Verdict &verdict, bool fit) {
  if (verdict.fits())
    return;
  if (fit)
    throw Error::infeasible("STOW1002: the step does not fit the card\n" + renderVerdict(verdict));
  std::fprintf(stderr, "warning: the step does not fit the card: %s\n",
               verdictLine(verdict).c_str());
}

} // namespace stow
