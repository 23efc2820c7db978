#include "data/tokenizer/bpe_document.h"

#include "base/json.h"

namespace viaduct {

BpeJson byte_level_json(bool cuts) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", cuts}};
}

BpeJson added_token_json(size_t id, std::string_view content, bool special) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

BpeJson bpe_model_json(BpeJson vocabulary, BpeJson merges, bool ignore_merges) {
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", ignore_merges},
          {"vocab", std::move(vocabulary)},
          {"merges", std::move(merges)}};
}

void append_member(BpeJson& object, const std::string& key, size_t value) {
  auto& members = object.get_ref<BpeJson::object_t&>();
  static_cast<std::vector<BpeJson::object_t::value_type>&>(members).emplace_back(key, value);
}

}  // namespace viaduct
