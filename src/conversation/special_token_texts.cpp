// The named special tokens of a tokenizer, as transformers 5 gives them to templates.

#include <algorithm>
#include <array>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/json_members.h"
#include "conversation/chat_renderer.h"
#include "data/tokenizer/tokenizer_files.h"

namespace viaduct {
namespace {

using nlohmann::json;

constexpr std::array<const char*, 7> kNames = {"bos_token", "eos_token", "unk_token", "sep_token",
                                               "pad_token", "cls_token", "mask_token"};

struct ClassTokens {
  std::string_view tokenizer_class;   // without "Fast"
  std::array<const char*, 7> tokens;  // null: none
};
/// What transformers' classes have where a configuration does not name a token.
constexpr ClassTokens kClasses[] = {
    {"GPT2Tokenizer",
     {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>", nullptr, nullptr, nullptr, nullptr}},
    {"LlamaTokenizer", {"<s>", "</s>", "<unk>", nullptr, nullptr, nullptr, nullptr}},
    {"CodeLlamaTokenizer", {"<s>", "</s>", "<unk>", nullptr, nullptr, nullptr, nullptr}},
    {"Qwen2Tokenizer",
     {nullptr, "<|endoftext|>", "<|endoftext|>", nullptr, "<|endoftext|>", nullptr, nullptr}},
    {"GemmaTokenizer", {"<bos>", "<eos>", "<unk>", nullptr, "<pad>", nullptr, "<mask>"}},
    {"T5Tokenizer", {nullptr, "</s>", "<unk>", nullptr, "<pad>", nullptr, nullptr}},
};

/// A token of a configuration: a text, or an object with "content"; nothing for null.
std::optional<std::string> token_text(const json& value, const std::string& where,
                                      const char* name) {
  if (value.is_null()) return std::nullopt;
  if (value.is_string()) return value.get<std::string>();
  const json* content = find_member(value, "content");
  VIADUCT_CHECK(IoError, content != nullptr && content->is_string(),
                "{}: {} is no text and has no \"content\"", where, name);
  return content->get<std::string>();
}

}  // namespace

SpecialTokenTexts special_token_texts(const TokenizerFiles& files) {
  constexpr const char *kConfiguration = "tokenizer_config.json", *kMap = "special_tokens_map.json";
  std::array<std::optional<std::string>, kNames.size()> tokens;
  std::array<bool, kNames.size()> named{};
  const auto read = [&](const json& document, const std::string& where) {
    for (size_t i = 0; i < kNames.size(); ++i) {
      const auto found = document.find(kNames[i]);
      if (found == document.end()) continue;
      tokens[i] = token_text(*found, where, kNames[i]);
      named[i] = true;
    }
  };
  const auto config = files.object(kConfiguration);
  if (config) read(*config, files.where(kConfiguration));
  // The map is of older folders, whose configuration does not list the added tokens.
  if (!config || !config->contains("added_tokens_decoder")) {
    if (const auto map = files.object(kMap)) read(*map, files.where(kMap));
  }
  if (config) {
    std::string kind = string_member(*config, "tokenizer_class", files.where(kConfiguration));
    if (kind.ends_with("Fast")) kind.resize(kind.size() - 4);
    for (const ClassTokens& known : kClasses) {
      if (kind != known.tokenizer_class) continue;
      for (size_t i = 0; i < kNames.size(); ++i) {
        if (!named[i] && known.tokens[i] != nullptr) tokens[i] = known.tokens[i];
      }
    }
  }
  SpecialTokenTexts result;
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (tokens[i]) result.emplace_back(kNames[i], *tokens[i]);
  }
  return result;
}

}  // namespace viaduct
