#include "data/tokenizer/llama_pipeline.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/json_members.h"
#include "base/json_reader.h"
#include "data/tokenizer/sentencepiece_kind.h"

namespace viaduct {
namespace {

using nlohmann::json;

/// Where transformers 5.24 (tokenization_llama.py) puts a space: Metaspace's prepend_scheme.
std::string scheme_of(const TokenizerFiles& files) {
  const json config = files.object(kTokenizerConfigurationFile).value_or(json::object());
  const std::string where = files.where(kTokenizerConfigurationFile);
  if (!bool_member(config, "add_prefix_space", where, true)) return "never";
  return bool_member(config, "legacy", where, false) ? "always" : "first";
}

/// transformers follows files of byte-level BPE whatever the class.
bool has_byte_level(const json& step) {
  if (string_member(step, "type", "") == "ByteLevel") return true;
  const json* steps = find_member(step, "pretokenizers");
  return steps != nullptr && std::any_of(steps->begin(), steps->end(), has_byte_level);
}

bool is_class_pipeline(const json& document, const std::string& scheme, const std::string& where) {
  const json* step = find_member(document, "pre_tokenizer");
  if (find_member(document, "normalizer") != nullptr || step == nullptr) return false;
  return string_member(*step, "type", where) == "Metaspace" &&
         string_member(*step, "prepend_scheme", where, "always") == scheme &&
         !bool_member(*step, "split", where, true);
}

}  // namespace

std::string llama_pipeline_warning(const TokenizerFiles& files) {
  if (!files.has(kTokenizerFile)) return "";
  const std::string where = files.where(kTokenizerFile);
  std::string scheme;
  try {
    if (sentencepiece_kind(files) != SentencePieceKind::llama) return "";
    const json document = parse_json<json>(files.text(kTokenizerFile), where);
    const json* step = find_member(document, "pre_tokenizer");
    scheme = scheme_of(files);
    if ((step != nullptr && has_byte_level(*step)) || is_class_pipeline(document, scheme, where))
      return "";
  } catch (const Error&) {
    return "";  // who reads it says why it cannot be read
  }
  return fmt::format(
      "{}: is followed as it stands, as in transformers 4; transformers 5 makes a tokenizer of its "
      "own of tokenizer_class LlamaTokenizer, which puts a space before {}, and will cut some "
      "texts into other tokens: open the folder there with PreTrainedTokenizerFast",
      where,
      scheme == "first"    ? "the first words of a text alone"
      : scheme == "always" ? "words behind special tokens, and before no space"
                           : "no text");
}

}  // namespace viaduct
