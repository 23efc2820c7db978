#include "data/tokenizer/stored_configuration.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/json.h"
#include "data/tokenizer/sentencepiece_kind.h"
#include "data/tokenizer/vocabulary_files.h"

namespace viaduct {
namespace {

constexpr const char *kConfiguration = "tokenizer_config.json", *kModel = "config.json";

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
  if (!files.has(kModel) || files.has("tokenizer.json")) return std::nullopt;
  const bool pieces =
      std::ranges::any_of(kSentencePieceFiles, [&](const char* name) { return files.has(name); });
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

}  // namespace viaduct
