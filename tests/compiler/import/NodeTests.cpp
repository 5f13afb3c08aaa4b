// Judges the standard's node tests and writes the table of docs/node-tests.md.
//
//   node-tests FOLDER [--every=N] [--compiled] [--table=FILE] [--check=FILE] [--list] [NAME...]
//
// FOLDER is what make_conformance.py wrote. --every takes each Nth case, NAME those of that name; --compiled runs what the compiler
// makes of them in the place of the reference evaluator; --list prints each verdict; --table writes the page, --check compares it
// with what is there. The exit code is 1 where a case is wrong, is refused for a reason that the table has no
// name for, or the page is stale.
#include "tests/compiler/import/NodeCase.h"
#include "tests/compiler/import/RunCompiled.h"

#include "compiler/import/GraphImport.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>

using namespace stow::onnx;

namespace {

/// A row of the table.
struct Row {
  int cases = 0, right = 0, ofConstants = 0, drawn = 0;
  std::map<std::string, int> refused; ///< by cause
};

using Rows = std::map<std::string, Row>;

int sumOf(const std::map<std::string, int> &counts) {
  int sum = 0;
  for (const auto &[key, count] : counts)
    sum += count;
  return sum;
}

std::string pageOf(const Rows &rows, const std::string &version) {
  Row all;
  std::map<std::string, int> operators; // by cause
  for (const auto &[op, row] : rows) {
    all.cases += row.cases;
    all.right += row.right;
    all.ofConstants += row.ofConstants;
    all.drawn += row.drawn;
    for (const auto &[cause, count] : row.refused) {
      all.refused[cause] += count;
      ++operators[cause];
    }
  }
  std::string page = absl::StrFormat(
      "<!-- Written by node-tests (tests/compiler/import); do not edit. -->\n\n"
      "# The ONNX standard's node tests\n\n"
      "The %d cases of ONNX %s, each one operator or the body that the standard gives for it. %d "
      "are right and %d are refused with "
      "their cause; none is wrong.\n\n"
      "Each is imported with all of its inputs as data, with its tensors of numbers as data, with "
      "its first input as data and with "
      "none, what is no data being in the file; the graph is run by the reference evaluator. It "
      "counts as right where one of these "
      "imports gives the expected outputs and none gives others: whole numbers exactly, others "
      "within the standard's tolerance, and "
      "all of them of the expected type and shape. *Constants*: %d are right where all inputs are "
      "in the file, and refused where they are "
      "data. *Drawn*: of %d, whose numbers are random, shapes and types are compared.\n\n"
      "```\nctest --test-dir build/release -C nightly -R node-tests      # judges all, and "
      "compares this page\n"
      "build/release/bin/node-tests build/node-tests --table=docs/node-tests.md\n```\n\n"
      "## Why cases are refused\n\n| cause | cases | operators |\n|---|---:|---:|\n",
      all.cases, version, all.right, sumOf(all.refused), all.ofConstants, all.drawn);
  std::vector<std::pair<std::string, int>> causes(all.refused.begin(), all.refused.end());
  std::ranges::stable_sort(causes,
                           [](const auto &a, const auto &b) { return a.second > b.second; });
  for (const auto &[cause, count] : causes)
    absl::StrAppend(&page, "| ", cause, " | ", count, " | ", operators[cause], " |\n");
  absl::StrAppend(
      &page,
      "\n## By operator\n\n| operator | cases | right | constants | drawn | refused | why |\n"
      "|---|---:|---:|---:|---:|---:|---|\n");
  for (const auto &[op, row] : rows) {
    std::vector<std::string> why;
    for (const auto &[cause, count] : row.refused)
      why.push_back(row.refused.size() == 1 ? cause : absl::StrCat(count, ": ", cause));
    auto number = [](int count) { return count ? std::to_string(count) : std::string(); };
    absl::StrAppend(&page, "| ", op, " | ", row.cases, " | ", row.right, " | ",
                    number(row.ofConstants), " | ", number(row.drawn), " | ",
                    number(sumOf(row.refused)), " | ", absl::StrJoin(why, "; "), " |\n");
  }
  return page;
}

std::string textOf(const std::filesystem::path &path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Options {
  std::filesystem::path folder;
  std::string table, check;
  size_t every = 1;
  bool lists = false, isCompiled = false;
  std::set<std::string> names; ///< empty: all
};

Options parse(int count, char **given) {
  Options options;
  for (int i = 1; i < count; ++i) {
    std::string_view text = given[i];
    auto value = [&](std::string_view name) { return std::string(text.substr(name.size())); };
    if (text.starts_with("--table="))
      options.table = value("--table=");
    else if (text.starts_with("--check="))
      options.check = value("--check=");
    else if (text.starts_with("--every="))
      options.every = std::stoul(value("--every="));
    else if (text == "--list")
      options.lists = true;
    else if (text == "--compiled")
      options.isCompiled = true;
    else if (!text.starts_with("--") && options.folder.empty())
      options.folder = text;
    else if (!text.starts_with("--"))
      options.names.emplace(text);
    else
      throw stow::Error::badInput(absl::StrCat("unknown argument \"", std::string(text), "\""));
  }
  if (options.folder.empty() || options.every < 1)
    throw stow::Error::badInput("expects the folder of the cases");
  return options;
}

/// Judges the cases; the number of those that are wrong or refused for no cause that has a name.
int judgeAll(const Options &options, Rows &rows) {
  int failures = 0;
  const std::vector<NodeCase> cases = readCases(options.folder);
  for (size_t i = 0; i < cases.size(); i += options.every) {
    const NodeCase &test = cases[i];
    if (!options.names.empty() && !options.names.contains(test.name))
      continue;
    if (options.lists)
      std::cout << test.name << '\t' << std::flush; // stands there should the case crash
    const Verdict verdict =
        judge(options.folder, test, options.isCompiled ? Run(runCompiled) : Run(evaluateModel));
    const bool isRight = verdict.kind == Verdict::Kind::Right,
               isWrong = verdict.kind == Verdict::Kind::Wrong;
    const std::string cause = isRight || isWrong ? "" : causeOf(verdict.reason);
    if (options.lists)
      std::cout << test.op << '\t'
                << (isRight   ? "right"
                    : isWrong ? "WRONG"
                              : "refused")
                << '\t' << cause << '\t' << verdict.reason << std::endl;
    if (isWrong || (!isRight && cause.empty())) {
      ++failures;
      std::cerr << "node-tests: " << test.name << (isWrong ? " is wrong, " : " is refused, ")
                << verdict.reason << std::endl;
    }
    Row &row = rows[test.op];
    ++row.cases;
    row.right += isRight;
    row.ofConstants += isRight && verdict.isOfConstants;
    row.drawn += isRight && verdict.isDrawn;
    if (!isRight && !isWrong)
      ++row.refused[cause];
  }
  return failures;
}

} // namespace

int main(int count, char **given) {
  try {
    const Options options = parse(count, given);
    Rows rows;
    const int failures = judgeAll(options, rows);
    std::string version = textOf(options.folder / "version.txt");
    const std::string page = pageOf(rows, version.substr(0, version.find('\n')));
    if (!options.table.empty())
      std::ofstream(options.table) << page;
    if (!options.check.empty() && page != textOf(options.check)) {
      std::cerr << "node-tests: " << options.check << " is stale; write it with --table\n";
      return 1;
    }
    return failures ? 1 : 0;
  } catch (const std::exception &error) {
    std::cerr << "node-tests: " << error.what() << "\n";
    return 1;
  }
}
