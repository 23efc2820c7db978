// A trained tokenizer as files that Hugging Face's tokenizers library reads.

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "data/tokenizer/train_bpe.h"

namespace viaduct {
namespace {

using Json = nlohmann::ordered_json;  // members in the order written: files compare line by line

Json byte_level() {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", true}};
}

}  // namespace

void write_tokenizer(const TrainedBpe& trained, const std::filesystem::path& folder) {
  Json vocabulary = Json::object();
  auto& members = vocabulary.get_ref<Json::object_t&>();
  members.reserve(trained.tokens.size());
  for (size_t id = 0; id < trained.tokens.size(); ++id) {
    // Not operator[], which searches all members before it adds one.
    static_cast<std::vector<Json::object_t::value_type>&>(members).emplace_back(trained.tokens[id],
                                                                                id);
  }
  Json merges = Json::array();
  for (const auto& [left, right] : trained.merges) merges.push_back(left + " " + right);
  const Json document = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", Json::array({{{"id", 0},
                                     {"content", kEndOfText},
                                     {"single_word", false},
                                     {"lstrip", false},
                                     {"rstrip", false},
                                     {"normalized", false},
                                     {"special", true}}})},
      {"normalizer", nullptr},
      {"pre_tokenizer", byte_level()},
      {"post_processor", byte_level()},
      {"decoder", byte_level()},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"ignore_merges", false},
        {"vocab", std::move(vocabulary)},
        {"merges", std::move(merges)}}},
  };
  const Json config = {
      {"tokenizer_class", "PreTrainedTokenizerFast"},
      {"bos_token", kEndOfText},
      {"eos_token", kEndOfText},
      {"add_prefix_space", false},
      {"clean_up_tokenization_spaces", false},
  };
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  VIADUCT_CHECK(IoError, !error, "cannot create {}: {}", folder.string(), error.message());
  write_file_atomically(folder / "tokenizer.json", document.dump(2) + "\n");
  write_file_atomically(folder / "tokenizer_config.json", config.dump(2) + "\n");
}

}  // namespace viaduct
