#include "checkpoint/gguf_whole_tokenizer.h"

#include <set>

#include "base/json.h"
#include "base/json_reader.h"

namespace viaduct {

std::string whole_tokenizer_json(const TokenizerFiles& files,
                                 const std::vector<AddedToken>& added) {
  std::string text = files.text(kTokenizerFile);
  auto file = parse_json<nlohmann::ordered_json>(text, files.where(kTokenizerFile));
  std::set<int64_t> listed;
  if (file.contains("added_tokens") && file["added_tokens"].is_array()) {
    for (const auto& token : file["added_tokens"])
      if (token.contains("id")) listed.insert(json_count(token["id"]).value_or(-1));
  } else {
    file["added_tokens"] = nlohmann::ordered_json::array();
  }
  bool complete = true;
  for (const AddedToken& token : added) {
    if (!listed.insert(token.id).second) continue;
    complete = false;
    file["added_tokens"].push_back({{"id", token.id},
                                    {"content", token.content},
                                    {"single_word", token.single_word},
                                    {"lstrip", token.lstrip},
                                    {"rstrip", token.rstrip},
                                    {"normalized", token.normalized},
                                    {"special", token.special}});
  }
  return complete ? text : file.dump();
}

}  // namespace viaduct
