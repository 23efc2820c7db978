#include "run/template_warnings.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "checkpoint/model_folder.h"
#include "conversation/chat_renderer.h"
#include "data/dataset_builder.h"
#include "data/dataset_fingerprint.h"
#include "data/score_mask.h"
#include "data/token_record.h"
#include "template/template_error.h"

namespace viaduct {
namespace {

/// The model's own templates; nothing where it has none, or one that is no template.
std::optional<ChatRenderer> own_template(const std::filesystem::path& tokenizer) {
  try {
    return ChatRenderer::load(open_tokenizer_files(tokenizer));
  } catch (const TemplateError&) {
    return std::nullopt;
  }
}

}  // namespace

std::vector<std::string> template_warnings(DatasetBuilder& builder,
                                           const std::filesystem::path& tokenizer) {
  if (builder.config().mock) return {};
  if (tokenizer.empty()) {
    if (!learns_a_template(builder)) return {};
    return {
        "the data are conversations, and neither the model's folder nor tokenizer.tokenizer_model "
        "has a tokenizer: viaduct chat and generate --chat cannot ask the model that is saved"};
  }
  std::vector<std::string> warnings;
  for (const std::string& prefix : dataset_prefixes(builder.config())) {
    const auto record = read_token_record(*builder.open(prefix));
    if (!record || !record->conversations) continue;
    const auto own = own_template(tokenizer);
    const auto is_other = [&](const std::optional<uint64_t>& used) {
      return used && !(own && (own->hash() == *used || own->hash_with_all_tokens() == *used));
    };
    const auto& used = record->conversations->chat_templates;
    const auto others = std::ranges::count_if(used, is_other);
    if (others == 0) continue;
    warnings.push_back(fmt::format(
        "dataset {}: {}its conversations were made with another chat template than {}: viaduct "
        "chat, generate --chat and exports use the model's own, so copy the template to "
        "chat_template.jinja in the model's folder, and make the dataset with that",
        prefix, others < std::ssize(used) ? "some of " : "",
        own ? "that of " + tokenizer.string() : tokenizer.string() + ", which has none"));
  }
  return warnings;
}

bool learns_a_template(DatasetBuilder& builder) {
  const std::vector<std::string> conversations = masked_datasets(builder.config()).with;
  return std::ranges::any_of(conversations, [&](const std::string& prefix) {
    const auto record = read_token_record(*builder.open(prefix));
    if (!record || !record->conversations) return true;
    return std::ranges::any_of(record->conversations->chat_templates,
                               [](const auto& used) { return used.has_value(); });
  });
}

}  // namespace viaduct
