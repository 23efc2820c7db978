#include "checkpoint/gguf_whole_tokenizer.h"

#include <set>
#include <string_view>
#include <unordered_map>

#include "base/json.h"
#include "base/json_reader.h"
#include "data/tokenizer/tokenizer_json_list.h"

namespace viaduct {
namespace {

using Json = nlohmann::ordered_json;

Json flags_of(const AddedToken& token) {
  return {{"single_word", token.single_word},
          {"lstrip", token.lstrip},
          {"rstrip", token.rstrip},
          {"normalized", token.normalized},
          {"special", token.special}};
}

bool has_flags(const Json& listed, const AddedToken& token) {
  const auto flag = [&](const char* name, bool otherwise) {
    const auto found = listed.find(name);
    return found == listed.end() ? otherwise : *found == true;
  };
  const bool special = flag("special", false);
  return special == token.special && flag("normalized", !special) == token.normalized &&
         flag("lstrip", false) == token.lstrip && flag("rstrip", false) == token.rstrip &&
         flag("single_word", false) == token.single_word;
}

}  // namespace

std::string whole_tokenizer_json(const TokenizerFiles& files,
                                 const std::vector<AddedToken>& added) {
  constexpr const char* kList = "added_tokens";
  std::string text = files.text(kTokenizerFile);
  const std::string where = files.where(kTokenizerFile);
  const std::string_view list = list_text(text, kList, where);
  auto tokens = list.empty() ? Json::array() : parse_json<Json>(list, where);
  std::unordered_map<std::string_view, const AddedToken*> by_content;
  for (const AddedToken& token : added) by_content[token.content] = &token;
  std::set<int64_t> listed;
  bool complete = true;
  for (auto& token : tokens) {
    if (token.contains("id")) listed.insert(json_count(token["id"]).value_or(-1));
    if (!token.contains("content") || !token["content"].is_string()) continue;
    const auto meant = by_content.find(token["content"].get_ref<const std::string&>());
    if (meant == by_content.end() || has_flags(token, *meant->second)) continue;
    token.update(flags_of(*meant->second));
    complete = false;
  }
  for (const AddedToken& token : added) {
    if (!listed.insert(token.id).second) continue;
    complete = false;
    tokens.push_back({{"id", token.id}, {"content", token.content}});
    tokens.back().update(flags_of(token));
  }
  return complete ? text : with_list(text, kList, tokens.dump(), where);
}

}  // namespace viaduct
