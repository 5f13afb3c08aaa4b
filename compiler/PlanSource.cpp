#include "compiler/PlanSource.h"

#include "compiler/Pipeline.h"
#include "compiler/PlanFile.h"
#include "compiler/Registration.h"
#include "runtime/base/Error.h"

namespace stow {

std::vector<std::string> takeFiles(std::vector<std::string> &words) {
  std::vector<std::string> files;
  std::erase_if(words, [&](const std::string &word) {
    const bool isFile = !word.starts_with("-");
    if (isFile)
      files.push_back(word);
    return isFile;
  });
  return files;
}

Plan planFromAny(const std::string &path, const std::vector<std::string> &flags) {
  if (!isModelFile(path))
    return readPlanFile(path);
  std::vector<std::string> words = flags;
  words.push_back(path);
  CompileOptions options = parseCompileOptions(words, /*wantsOutput=*/false);
  if (options.stopAfter != Form::Program || options.listParameters)
    throw Error::badInput("this command plans models to the end; leave out --stop-after and "
                          "--list-parameters");
  mlir::MLIRContext context;
  prepareContext(context);
  StageTimer timer;
  return compileToPlan(context, options, timer).plan;
}

} // namespace stow
