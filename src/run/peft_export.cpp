#include "run/peft_export.h"

#include <fmt/format.h>

#include "checkpoint/peft_form.h"

namespace viaduct {

std::vector<std::string> peft_export_warnings(const RunConfig& config, const ModelConfig& model) {
  std::vector<std::string> lines;
  const AdapterSettings& adapters = config.peft.resolved;
  if (config.train.skip_train || !adapters.any()) return lines;
  if (const auto limit = peft_limit(adapters, model))
    lines.push_back(fmt::format(
        "peft.{}: PEFT cannot hold these adapters, and convert refuses to write them for it: {}; "
        "merged into the model's folder or in a GGUF file they are whole",
        limit->setting, limit->reason));
  if (adapters.dropout > 0 && adapters.dropout_after)
    lines.push_back(fmt::format(
        "peft.dropout_position: post has no place in PEFT's files: convert writes lora_dropout: "
        "{}, which for who trains on with them is dropout of what adapters read (pre)",
        adapters.dropout));
  return lines;
}

}  // namespace viaduct
