// A trained tokenizer as files that Hugging Face's tokenizers library reads.

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "data/tokenizer/bpe_document.h"
#include "data/tokenizer/train_bpe.h"

namespace viaduct {

void write_tokenizer(const TrainedBpe& trained, const std::filesystem::path& folder) {
  using Json = BpeJson;  // files compare line by line
  Json vocabulary = Json::object();
  vocabulary.get_ref<Json::object_t&>().reserve(trained.tokens.size());
  for (size_t id = 0; id < trained.tokens.size(); ++id)
    append_member(vocabulary, trained.tokens[id], id);
  Json merges = Json::array();
  for (const auto& [left, right] : trained.merges) merges.push_back(left + " " + right);
  const Json document = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", Json::array({added_token_json(0, kEndOfText, true)})},
      {"normalizer", nullptr},
      {"pre_tokenizer", byte_level_json(true)},
      {"post_processor", byte_level_json(true)},
      {"decoder", byte_level_json(true)},
      {"model", bpe_model_json(std::move(vocabulary), std::move(merges), false)},
  };
  const Json config = {
      {"tokenizer_class", "PreTrainedTokenizerFast"},
      {"bos_token", kEndOfText},
      {"eos_token", kEndOfText},
      {"add_prefix_space", false},
      {"clean_up_tokenization_spaces", false},
      // Else transformers 4 also gives token_type_ids, which models that generate refuse.
      {"model_input_names", Json::array({"input_ids", "attention_mask"})},
  };
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  VIADUCT_CHECK(IoError, !error, "cannot create {}: {}", folder.string(), error.message());
  write_file_atomically(folder / "tokenizer.json", document.dump(2) + "\n");
  write_file_atomically(folder / "tokenizer_config.json", config.dump(2) + "\n");
}

}  // namespace viaduct
