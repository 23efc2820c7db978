#include "data/tokenizer/qwen2_pipeline.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "data/tokenizer/pre_tokenizer.h"
#include "data/tokenizer/sentencepiece_kind.h"
#include "data/tokenizer/vocabulary_files.h"

namespace viaduct {
namespace {

using nlohmann::json;

const json& member(const json& object, const char* name) {
  static const json kNone;
  const auto found = object.is_object() ? object.find(name) : object.end();
  return object.is_object() && found != object.end() ? *found : kNone;
}

/// A step, or the only one of a sequence.
const json& alone(const json& step, const char* list) {
  const json& steps = member(step, list);
  return steps.is_array() && steps.size() == 1 ? steps[0] : step;
}

bool is_qwen2(const json& document) {
  if (member(alone(member(document, "normalizer"), "normalizers"), "type") != "NFC") return false;
  const json& steps = member(member(document, "pre_tokenizer"), "pretokenizers");
  return steps.is_array() && steps.size() == 2 && member(steps[0], "type") == "Split" &&
         member(member(steps[0], "pattern"), "Regex") == qwen2_pattern() &&
         member(steps[0], "behavior") == "Isolated" && member(steps[0], "invert") != true &&
         member(steps[1], "type") == "ByteLevel" && member(steps[1], "add_prefix_space") == false &&
         member(steps[1], "use_regex") == false;
}

}  // namespace

std::string qwen2_pipeline_warning(const TokenizerFiles& files) {
  std::string where;
  try {
    if (files.has(kTokenizerFile)) {
      where = files.where(kTokenizerFile);
      if (is_qwen2(parse_json<json>(files.text(kTokenizerFile), where))) return "";
    } else if (const char* pieces = sentencepiece_file(files)) {
      where = files.where(pieces);
    } else if (files.has(kVocabularyFile) && vocabulary_class(files) != "Qwen2Tokenizer") {
      where = files.where(kVocabularyFile);
    }
  } catch (const Error&) {
    return "";  // who reads it says why it cannot be read
  }
  if (where.empty()) return "";
  return fmt::format(
      "{}: is not the tokenizer of Qwen2; transformers takes Qwen2Tokenizer for every folder of "
      "model_type qwen2, whatever tokenizer_class says, and AutoTokenizer will cut texts into "
      "other "
      "tokens than the model learned: open it there with PreTrainedTokenizerFast",
      where);
}

}  // namespace viaduct
