#include "checkpoint/gguf_whole_tokenizer.h"

#include <algorithm>
#include <set>

#include "base/json.h"
#include "base/json_reader.h"

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
  std::string text = files.text(kTokenizerFile);
  auto file = parse_json<Json>(text, files.where(kTokenizerFile));
  std::set<int64_t> listed;
  bool complete = true;
  if (file.contains("added_tokens") && file["added_tokens"].is_array()) {
    for (auto& token : file["added_tokens"]) {
      if (token.contains("id")) listed.insert(json_count(token["id"]).value_or(-1));
      const auto meant = std::find_if(added.begin(), added.end(), [&](const AddedToken& one) {
        return token.contains("content") && token["content"] == one.content;
      });
      if (meant == added.end() || has_flags(token, *meant)) continue;
      token.update(flags_of(*meant));
      complete = false;
    }
  } else {
    file["added_tokens"] = Json::array();
  }
  for (const AddedToken& token : added) {
    if (!listed.insert(token.id).second) continue;
    complete = false;
    file["added_tokens"].push_back({{"id", token.id}, {"content", token.content}});
    file["added_tokens"].back().update(flags_of(token));
  }
  return complete ? text : file.dump();
}

}  // namespace viaduct
