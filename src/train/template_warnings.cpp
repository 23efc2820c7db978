#include "train/template_warnings.h"

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
  std::vector<std::string> warnings;
  for (const std::string& prefix : dataset_prefixes(builder.config())) {
    const auto record = read_token_record(*builder.open(prefix));
    if (!record || !record->conversations || !record->conversations->chat_template) continue;
    const auto own = own_template(tokenizer);
    const uint64_t used = *record->conversations->chat_template;
    if (own && (own->hash() == used || own->hash_with_all_tokens() == used)) continue;
    warnings.push_back(fmt::format(
        "dataset {}: its conversations were made with another chat template than {}: viaduct chat, "
        "generate --chat and exports use the model's own, so copy the template to "
        "chat_template.jinja in the model's folder, and make the dataset with that",
        prefix, own ? "that of " + tokenizer.string() : tokenizer.string() + ", which has none"));
  }
  return warnings;
}

bool learns_a_template(DatasetBuilder& builder) {
  const std::vector<std::string> conversations = masked_datasets(builder.config()).with;
  return std::ranges::any_of(conversations, [&](const std::string& prefix) {
    const auto record = read_token_record(*builder.open(prefix));
    return !record || !record->conversations || record->conversations->chat_template.has_value();
  });
}

}  // namespace viaduct
