#include "checkpoint/adapter_tokenizer.h"

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/peft_folder.h"

namespace viaduct {
namespace {

using Texts = std::map<std::string, std::string>;

bool has_vocabulary(const Texts& texts) {
  for (const char* name : kSentencePieceFiles)
    if (texts.contains(name)) return true;
  return texts.contains(kTokenizerFile) ||
         (texts.contains(kVocabularyFile) && texts.contains(kMergesFile));
}

bool is_template(const std::string& name) {
  return name.starts_with("chat_template.") || name.starts_with(kTemplatesFolder);
}

/// JSON is the same whatever its spaces and the order of its members.
bool same_content(const std::string& name, const std::string& a, const std::string& b) {
  if (a == b) return true;
  if (!name.ends_with(".json")) return false;
  try {
    return parse_json<nlohmann::json>(a, name) == parse_json<nlohmann::json>(b, name);
  } catch (const IoError&) {  // whoever reads it says what is wrong
    return false;
  }
}

std::vector<std::string> differing_files(const Texts& own, const Texts& model) {
  std::vector<std::string> names;
  for (const auto& [name, text] : own) {
    if (name == kGenerationFile || name.ends_with("processor_config.json")) continue;
    const auto at = model.find(name);
    if (at == model.end() || !same_content(name, text, at->second)) names.push_back(name);
  }
  for (const auto& [name, text] : model)
    if (is_template(name) && !own.contains(name)) names.push_back("without " + name);
  return names;
}

}  // namespace

TokenizerFiles AdapterTokenizer::files(const std::string& model_config) const {
  Texts all = texts;
  all["config.json"] = config.empty() ? model_config : config;
  return {folder, std::move(all)};
}

std::string AdapterTokenizer::text() const {
  return fmt::format("{} ({})", folder.string(), fmt::join(differing, ", "));
}

std::optional<AdapterTokenizer> tokenizer_of_adapter(const std::filesystem::path& adapter,
                                                     const std::filesystem::path& model) {
  AdapterTokenizer found;
  found.folder = adapter_folder(adapter);
  found.texts = model_side_texts(found.folder);
  if (!has_vocabulary(found.texts)) return std::nullopt;
  const Texts of_model = model_side_texts(model);
  found.differing = differing_files(found.texts, of_model);
  if (found.differing.empty()) return std::nullopt;
  const auto generation = of_model.find(kGenerationFile);
  if (generation != of_model.end()) found.texts.insert(*generation);
  const std::filesystem::path own = found.folder / "config.json";
  std::error_code ignored;
  if (std::filesystem::is_regular_file(own, ignored))
    found.config = read_file(own, size_t{1} << 20);
  return found;
}

}  // namespace viaduct
