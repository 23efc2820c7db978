#include "model_options.h"

#include "base/log.h"
#include "number_checks.h"

namespace viaduct::cli {

void add_model_option(CLI::App& app, std::filesystem::path& model) {
  app.add_option(
         "--model", model,
         "Hugging Face folder, FILE.gguf, checkpoint, save folder (its latest step) or RUN/best; "
         "or the name of a model of the Hugging Face Hub in the local cache (ORG/NAME[@REVISION])")
      ->check(not_empty())
      ->required();
}

std::string overrides_text(const OverrideScope& scope, const std::string& ranks) {
  return "section.field=value, such as mixed_precision=fp32 (default: the type of the weights), "
         "dist.ranks=2 model.tensor_model_parallel_size=2" +
         ranks + "; " + scope.help();
}

void log_notes(const RunSetup& setup) {
  for (const std::string& note : setup.notes) log_info("{}", note);
}

}  // namespace viaduct::cli
