#include "data/tokenizer/stored_configuration.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/json.h"
#include "base/json_members.h"
#include "data/tokenizer/sentencepiece_kind.h"
#include "data/tokenizer/vocabulary_files.h"

namespace viaduct {
namespace {

constexpr const char *kConfiguration = kTokenizerConfigurationFile, *kModel = "config.json";

/// The class that the files mean; empty for none, nothing for one that is not supported.
std::optional<std::string> class_meant(const TokenizerFiles& files, bool pieces) {
  try {
    return std::string(pieces ? sentencepiece_class(sentencepiece_kind(files))
                              : vocabulary_class(files));
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

}  // namespace

std::optional<std::string> stored_tokenizer_configuration(const TokenizerFiles& files) {
  if (!files.has(kModel) || files.has(kTokenizerFile)) return std::nullopt;
  const bool pieces = sentencepiece_file(files) != nullptr;
  if (!pieces && !files.has(kVocabularyFile)) return std::nullopt;
  std::map<std::string, std::string> alone;
  if (files.has(kConfiguration)) alone[kConfiguration] = files.text(kConfiguration);
  const auto meant = class_meant(files, pieces);
  if (!meant || meant->empty()) return std::nullopt;
  if (class_meant(TokenizerFiles(files.where(), alone), pieces) == meant) return std::nullopt;
  auto config = files.object(kConfiguration).value_or(nlohmann::json::object());
  config["tokenizer_class"] = *meant;
  return config.dump(2) + "\n";
}

std::optional<std::string> stored_generation_configuration(const TokenizerFiles& files) {
  const auto model = files.object(kModel);
  if (!model) return std::nullopt;
  auto kept = files.object(kGenerationFile).value_or(nlohmann::json::object());
  bool changed = false;
  for (const char* name : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    const nlohmann::json* id = find_member(*model, name);
    if (id == nullptr || find_member(kept, name) != nullptr) continue;
    if (!id->is_number_unsigned() && !id->is_array()) continue;  // some write -1 for "none"
    kept[name] = *id;
    changed = true;
  }
  return changed ? std::optional(kept.dump(2) + "\n") : std::nullopt;
}

}  // namespace viaduct
