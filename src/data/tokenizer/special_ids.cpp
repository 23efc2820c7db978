#include "data/tokenizer/special_ids.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/json_members.h"
#include "data/tokenizer/token_id.h"

namespace viaduct {
namespace {

using nlohmann::json;

/// The tokens of a model and those added to it.
struct Vocabulary {
  const TokenModel& model;
  const std::vector<AddedToken>& added;

  std::optional<int32_t> find(std::string_view token) const {
    for (const AddedToken& candidate : added) {
      if (candidate.content == token) return candidate.id;
    }
    return model.find(token);
  }
  bool has(int32_t id) const {
    return model.token(id).has_value() ||
           std::any_of(added.begin(), added.end(),
                       [id](const AddedToken& token) { return token.id == id; });
  }
};

/// "eos_token": a string, or an object with "content".
std::optional<int32_t> named_token(const json& document, std::string_view name,
                                   const Vocabulary& vocabulary) {
  const json* value = find_member(document, name);
  if (value != nullptr && value->is_object()) value = find_member(*value, "content");
  if (value == nullptr || !value->is_string()) return std::nullopt;
  return vocabulary.find(value->get_ref<const std::string&>());
}

/// "eos_token_id": a number or a list of numbers.
std::vector<int32_t> numbered_tokens(const json& document, std::string_view name,
                                     std::string_view source, const Vocabulary& vocabulary) {
  const json* value = find_member(document, name);
  std::vector<int32_t> ids;
  if (value == nullptr) return ids;
  const auto add = [&](const json& entry) {
    const int32_t id = token_id_of(entry, source, name);
    if (vocabulary.has(id)) ids.push_back(id);
  };
  if (value->is_array()) {
    for (const json& entry : *value) add(entry);
  } else if (*value != -1) {  // some configurations write -1 for "none"
    add(*value);
  }
  return ids;
}

void take(std::optional<int32_t>& target, std::optional<int32_t> value) {
  if (!target) target = value;
}

void add_once(std::vector<int32_t>& ids, int32_t id) {
  if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
}

/// Ends of a message in the templates of published chat models, and ends of a text.
constexpr const char* kEndsOfTurns[] = {"<|im_end|>", "<|eot_id|>",   "<|eom_id|>",
                                        "<|eot|>",    "<|end|>",      "<end_of_turn>",
                                        "<|return|>", "<|endofturn|>"};
constexpr const char* kEndsOfTexts[] = {"<|endoftext|>", "<|end_of_text|>", "<eos>", "</s>"};

/// `eos`, or the token that is named as the end of a text where `eos` is not. A name of the
/// vocabulary itself ("</s>" is a tag in HTML) counts only if `eos` is known to end messages.
int32_t end_of_text(int32_t eos, const Vocabulary& vocabulary) {
  const auto named = [&](const auto& names) {
    return std::any_of(std::begin(names), std::end(names),
                       [&](const char* name) { return vocabulary.find(name) == eos; });
  };
  if (named(kEndsOfTexts)) return eos;
  const bool ends_messages = named(kEndsOfTurns);
  for (const std::string_view name : kEndsOfTexts) {
    for (const AddedToken& token : vocabulary.added) {
      if (token.special && token.content == name) return token.id;
    }
    if (!ends_messages) continue;
    if (const auto id = vocabulary.find(name)) return *id;
  }
  return eos;
}

}  // namespace

SpecialIds read_special_ids(const TokenizerFiles& files, const TokenModel& model,
                            const std::vector<AddedToken>& added, const SpecialIds& otherwise) {
  const Vocabulary vocabulary{model, added};
  SpecialIds special;
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const auto document = files.object(name);
    if (!document) continue;
    take(special.bos, named_token(*document, "bos_token", vocabulary));
    take(special.eos, named_token(*document, "eos_token", vocabulary));
    take(special.pad, named_token(*document, "pad_token", vocabulary));
  }
  for (const char* name : {"generation_config.json", "config.json"}) {
    const auto document = files.object(name);
    if (!document) continue;
    const auto first = [&](std::string_view key) -> std::optional<int32_t> {
      const auto ids = numbered_tokens(*document, key, files.where(name), vocabulary);
      return ids.empty() ? std::nullopt : std::optional(ids.front());
    };
    const auto ends = numbered_tokens(*document, "eos_token_id", files.where(name), vocabulary);
    if (special.stop.empty()) special.stop = ends;
    take(special.bos, first("bos_token_id"));
    take(special.eos, ends.empty() ? std::nullopt : std::optional(ends.front()));
    take(special.pad, first("pad_token_id"));
  }
  take(special.bos, otherwise.bos);
  take(special.eos, otherwise.eos);
  take(special.pad, otherwise.pad);
  for (const char* name : {"<|endoftext|>", "<|end_of_text|>"}) {
    take(special.eos, vocabulary.find(name));
  }
  if (special.eos) add_once(special.stop, *special.eos);
  // A tokenizer of a chat model calls the end of a message `eos`; where it has a token for the end
  // of a text, that one closes documents.
  special.eod = special.eos;
  if (special.eos) special.eod = end_of_text(*special.eos, vocabulary);
  return special;
}

}  // namespace viaduct
