#include "tests/mutations/Campaign.h"

#include "runtime/base/Error.h"
#include "tests/mutations/Isolated.h"
#include "tests/runtime/data/DataFiles.h"

#include <filesystem>
#include <stdexcept>

namespace stow::test {

namespace {

/// A damaged file, as its seed makes it.
struct Damaged {
  const Sample &sample;
  std::vector<Edit> edits;
};

Damaged draw(const Format &format, int64_t seed) {
  std::mt19937_64 random(static_cast<uint64_t>(seed));
  const Sample &sample = format.samples[random() % format.samples.size()];
  return {sample, drawEdits(sample.bytes, format.content, random)};
}

/// Whether the file is accepted. Throws where neither it nor its refusal is right.
bool isAccepted(const Format &format, const Damaged &damaged, const std::string &path) {
  const std::string bytes = edited(damaged.sample.bytes, damaged.edits);
  testfiles::writeFile(path, bytes);
  try {
    format.use(bytes, path);
  } catch (const Error &error) {
    if (error.kind() == ErrorKind::Internal)
      throw;
    if (std::string_view(error.what()).empty())
      throw std::runtime_error("refused without a word");
    return false;
  }
  if (!format.isEverAccepted && bytes != damaged.sample.bytes)
    throw std::runtime_error("the damage was not noticed");
  return true;
}

std::string report(const Format &format, const CampaignOptions &options, int64_t seed,
                   const Ending &ending, const std::string &path) {
  Damaged damaged = draw(format, seed);
  Ending last = ending;
  const size_t drawn = damaged.edits.size();
  damaged.edits = reduce(damaged.edits, [&](const std::vector<Edit> &edits) {
    const Ending now = runIsolated(
        0, 1, [&](int64_t) { return isAccepted(format, {damaged.sample, edits}, path); });
    if (now.isFailure)
      last = now;
    return now.isFailure;
  });
  namespace fs = std::filesystem;
  const fs::path folder =
      options.keep.empty() ? fs::temp_directory_path() / "stowage-mutated" : fs::path(options.keep);
  fs::create_directories(folder);
  const std::string kept =
      (folder / (format.name + "-" + std::to_string(seed) + "." + format.extension)).string();
  testfiles::writeFile(kept, edited(damaged.sample.bytes, damaged.edits));
  std::string text = "FAILED: " + format.name + ", seed " + std::to_string(seed) + " (" +
                     damaged.sample.name + "): " + ending.cause + "\n  " +
                     std::to_string(damaged.edits.size()) + " of " + std::to_string(drawn) +
                     " edits are enough, reduced: " + last.cause + "\n" +
                     describe(damaged.sample.bytes, damaged.edits) + "  the file: " + kept +
                     "\n  again: MutatedFiles --format=" + format.name +
                     " --first=" + std::to_string(seed) + " --cases=1\n";
  if (!last.words.empty())
    text += "  its last words:\n" + last.words + "\n";
  return text;
}

} // namespace

CampaignResult runCampaign(const Format &format, const CampaignOptions &options) {
  testfiles::TempDir folder;
  const std::string path = folder.path("file." + format.extension);
  CampaignResult result;
  const int64_t limit = options.first + options.count;
  for (int64_t next = options.first;
       next < limit && result.failures.size() < options.mostFailures;) {
    const Ending ending = runIsolated(
        next, limit, [&](int64_t seed) { return isAccepted(format, draw(format, seed), path); });
    result.accepted += ending.accepted;
    result.refused += ending.next - next - ending.accepted;
    result.processorSeconds += ending.processorSeconds;
    next = ending.next;
    if (next == limit)
      break;
    if (ending.isFailure)
      result.failures.push_back(report(format, options, next, ending, path));
    else
      ++result.refused; // memory ran out
    ++next;
  }
  return result;
}

} // namespace stow::test
