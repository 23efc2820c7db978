#include "data/tokenizer/folder_tokens.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/json.h"
#include "base/json_members.h"
#include "data/tokenizer/tokenizer_json.h"

namespace viaduct {
namespace {

using nlohmann::json;

std::map<int32_t, AddedToken> read_decoder(const json& decoder, const std::string& source) {
  VIADUCT_CHECK(IoError, decoder.is_object(), "{}: added_tokens_decoder must be an object", source);
  std::map<int32_t, AddedToken> tokens;
  for (const auto& [key, value] : decoder.items()) {
    int32_t id = -1;
    const auto end = key.data() + key.size();
    const auto [stop, error] = std::from_chars(key.data(), end, id);
    VIADUCT_CHECK(IoError, error == std::errc() && stop == end && id >= 0,
                  "{}: added_tokens_decoder has the key \"{}\", expected an id", source, key);
    tokens[id] = parse_added_token(value, id, source);
  }
  return tokens;
}

/// All that two spellings of a token may differ in; transformers takes no text for a repetition of
/// an object.
auto spelling_of(const SpecialToken& token) {
  return std::tuple(std::string_view(token.content), token.single_word, token.lstrip, token.rstrip,
                    token.normalized, token.special, token.form == SpecialToken::Form::text);
}

}  // namespace

FolderTokens::FolderTokens(const TokenizerFiles& files) {
  const auto config = files.object(kTokenizerConfigurationFile);
  const json* decoder = config ? find_member(*config, "added_tokens_decoder") : nullptr;
  if (config) special_.read_configuration(files);
  if (decoder != nullptr) {
    listed_ = read_decoder(*decoder, files.where(kTokenizerConfigurationFile));
    lists_all_ = true;
    return;
  }
  if (files.has(kSpecialTokensFile)) special_.read_map(files);
  const auto document = files.object(kAddedTokensFile);
  if (!document) return;
  for (auto& [content, id] : parse_vocabulary(*document, files.where(kAddedTokensFile))) {
    AddedToken& token = listed_[id];
    token.id = id;
    token.content = content;
    token.special = special_.is_special(content);
    token.normalized = !token.special;
  }
}

void FolderTokens::add_to(std::vector<AddedToken>& added, const TokenModel& model) const {
  std::unordered_map<std::string, size_t> place;
  int32_t next = model.token_count();
  for (size_t i = 0; i < added.size(); ++i) {
    place.emplace(added[i].content, i);
    next = std::max(next, added[i].id + 1);
    // Without a list of its own the folder's is that of tokenizer.json.
    if (!lists_all_) added[i].special |= special_.is_named(added[i].content);
  }
  const auto put = [&](AddedToken token) {
    token.special |= special_.is_named(token.content);
    if (const auto known = place.find(token.content); known != place.end()) {
      token.id = added[known->second].id;
      AddedToken& earlier = added[known->second];
      token.special |= earlier.special;  // once special, always
      token.was_normalized = earlier.normalized || earlier.was_normalized;
      earlier = std::move(token);
      return;
    }
    if (const auto in_model = model.find(token.content)) {
      token.id = *in_model;
    } else {
      while (model.token(next)) ++next;  // ids of the model may have gaps
      token.id = next;
    }
    next = std::max(next, token.id + 1);
    place.emplace(token.content, added.size());
    added.push_back(std::move(token));
  };
  for (const auto& [id, token] : listed_) put(token);
  // Of several spellings of one new token the last that is not a repetition counts.
  std::unordered_set<std::string> known;
  for (const auto& [content, at] : place) known.insert(content);
  std::vector<SpecialToken> seen;
  const std::vector<SpecialToken> special = special_.in_order();
  for (const SpecialToken& token : special) {
    const bool repeated = std::any_of(seen.begin(), seen.end(), [&](const SpecialToken& earlier) {
      return spelling_of(earlier) == spelling_of(token);
    });
    if (repeated || known.contains(token.content)) continue;
    seen.push_back(token);
    put(token);
  }
  if (!special_are_plain_) return;
  for (const AddedToken& token : special) {
    AddedToken plain;
    plain.content = token.content;
    plain.special = true;
    put(plain);
  }
}

}  // namespace viaduct
