// Loads a tokenizer from its files.

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/file.h"
#include "base/given_path.h"
#include "base/json.h"
#include "base/json_members.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/folder_tokens.h"
#include "data/tokenizer/sentencepiece_model.h"
#include "data/tokenizer/special_ids.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/tokenizer_files.h"
#include "data/tokenizer/tokenizer_json.h"

namespace viaduct {
namespace {

constexpr const char *kConfiguration = "tokenizer_config.json", *kVocabulary = "vocab.json";
constexpr std::string_view kFiles[] = {
    "tokenizer.json", "tokenizer.model",   "spiece.model",          "vocab.json",
    "merges.txt",     "added_tokens.json", "tokenizer_config.json", "special_tokens_map.json"};

/// `merges.txt`: one pair a line, in order of rank; a leading comment line and empty lines are
/// skipped.
std::vector<std::pair<std::string, std::string>> read_merges(const TokenizerFiles& files) {
  constexpr const char* kMerges = "merges.txt";
  const std::string text = files.text(kMerges);
  std::vector<std::pair<std::string, std::string>> merges;
  size_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    std::string_view line(text.data() + begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with("#version")) continue;
    const size_t space = line.find(' ');
    VIADUCT_CHECK(IoError,
                  space != std::string_view::npos && space > 0 && space + 1 < line.size() &&
                      line.find(' ', space + 1) == std::string_view::npos,
                  "{}: line {} must be two tokens with a space between", files.where(kMerges),
                  number);
    merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
  return merges;
}

/// `vocab.json` and `merges.txt`: GPT-2's pre-tokenization, or Qwen2's if the folder specifies it.
std::unique_ptr<PipelineModel> read_vocab_and_merges(const TokenizerFiles& files) {
  const std::string source = files.where(kVocabulary);
  BpeSpec spec;
  spec.vocabulary = parse_vocabulary(*files.object(kVocabulary), source);
  spec.merges = read_merges(files);
  std::string kind;
  bool add_prefix_space = false;
  if (const auto config = files.object(kConfiguration)) {
    const std::string where = files.where(kConfiguration);
    kind = string_member(*config, "tokenizer_class", where);
    add_prefix_space = bool_member(*config, "add_prefix_space", where, false);
  }
  const bool qwen = kind.starts_with("Qwen");
  Normalizer normalizer;
  if (qwen) normalizer.add(NormalForm::nfc);
  return std::make_unique<PipelineModel>(
      std::move(normalizer),
      pre_tokenizer_of(qwen ? qwen2_pattern() : gpt2_pattern(), add_prefix_space),
      std::make_unique<Bpe>(std::move(spec), source));
}

/// The special tokens of a `tokenizer.model`, as far as `model` has them under the same ids.
SpecialIds same_special_ids(const TokenizerFiles& files, const char* name,
                            const TokenModel& model) {
  const SentencePieceModel pieces(files.text(name), files.where(name));
  const auto same = [&](std::optional<int32_t> id) {
    return id && model.token(*id) == pieces.token(*id) ? id : std::nullopt;
  };
  SpecialIds ids;
  ids.bos = same(pieces.bos());
  ids.eos = same(pieces.eos());
  ids.pad = same(pieces.pad());
  return ids;
}

/// The template of a folder without `tokenizer.json`: "add_bos_token" and "add_eos_token" of its
/// `tokenizer_config.json`, else the kind's convention.
TokenTemplate read_template(const TokenizerFiles& files, const SpecialIds& special,
                            bool sentencepiece) {
  bool bos = sentencepiece && special.bos.has_value();
  bool eos = sentencepiece && !special.bos.has_value();  // T5 ends texts, Llama-2 begins them
  if (const auto config = files.object(kConfiguration)) {
    bos = bool_member(*config, "add_bos_token", files.where(kConfiguration), bos);
    eos = bool_member(*config, "add_eos_token", files.where(kConfiguration), eos);
  }
  TokenTemplate around;
  if (bos && special.bos) around.before.push_back(*special.bos);
  if (eos && special.eos) around.after.push_back(*special.eos);
  return around;
}

/// "clean_up_tokenization_spaces" of the configuration. As transformers 5, which cleans the text of
/// BPE tokenizers only where a second member insists on it.
bool cleans_spaces(const TokenizerFiles& files, const TokenModel& model) {
  const auto config = files.object(kConfiguration);
  if (!config) return false;
  const std::string where = files.where(kConfiguration);
  const auto is_set = [&](std::string_view name) {
    return bool_member(*config, name, where, false);
  };
  return is_set("clean_up_tokenization_spaces") &&
         (!model.is_bpe() ||
          is_set("clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output"));
}

}  // namespace

Tokenizer load_tokenizer(const std::filesystem::path& folder) {
  check_given_path("", folder, "a folder with tokenizer files");
  VIADUCT_CHECK(ConfigError, std::filesystem::is_directory(folder),
                "{}: not a folder; expected the folder that holds the tokenizer files",
                folder.string());
  return load_tokenizer(TokenizerFiles(folder));
}

Tokenizer load_tokenizer(const TokenizerFiles& files) {
  constexpr const char* kJson = "tokenizer.json";
  const char* pieces = "tokenizer.model";
  if (!files.has(pieces)) pieces = "spiece.model";  // the file's name in T5's folders
  const bool has_json = files.has(kJson);
  const bool has_model = files.has(pieces);
  const bool has_vocabulary = files.has(kVocabulary) && files.has("merges.txt");
  Tokenizer::Parts parts;
  std::string source = files.where(kJson);
  SpecialIds otherwise;
  bool sentencepiece = false;
  TokenizerJson json;
  if (has_json) {
    const auto unsupported = has_model || has_vocabulary ? UnsupportedModel::left_to_other_files
                                                         : UnsupportedModel::refused;
    json = parse_tokenizer_json(files.text(kJson), source, unsupported);
    parts.added = std::move(json.added);
    parts.around = std::move(json.around);
  }
  const bool json_model = json.model != nullptr;
  if (json_model) {
    parts.model = std::move(json.model);
    parts.decoder = std::move(json.decoder);
    if (has_model && !files.has(kConfiguration))
      otherwise = same_special_ids(files, pieces, *parts.model);
  } else if (has_model) {
    source = files.where(pieces);
    auto model = std::make_unique<SentencePieceModel>(files.text(pieces), source);
    otherwise.bos = model->bos();
    otherwise.eos = model->eos();
    otherwise.pad = model->pad();
    if (!has_json) parts.added = model->control_tokens();
    parts.model = std::move(model);
    sentencepiece = true;
  } else if (has_vocabulary) {
    source = files.where(kVocabulary);
    parts.model = read_vocab_and_merges(files);
    std::vector<DecodeStep> steps;
    steps.emplace_back(DecodeSimple::byte_letters);
    parts.decoder = TextDecoder(std::move(steps), source);
    if (const auto end = parts.model->find("<|endoftext|>"); end && !has_json) {
      AddedToken token;
      token.id = *end;
      token.content = "<|endoftext|>";
      token.special = true;
      parts.added.push_back(std::move(token));
    }
  } else {
    fail<IoError>(
        "no tokenizer in {}: expected tokenizer.json, tokenizer.model, or vocab.json with "
        "merges.txt",
        files.where());
  }
  parts.cleans_spaces = cleans_spaces(files, *parts.model);
  add_folder_tokens(files, *parts.model, !json_model, parts.added);
  parts.special = read_special_ids(files, *parts.model, parts.added, otherwise);
  if (!has_json) parts.around = read_template(files, parts.special, sentencepiece);
  return Tokenizer(std::move(parts), source);
}

Tokenizer parse_tokenizer(std::string_view text, std::string_view source) {
  TokenizerJson json = parse_tokenizer_json(text, source);
  Tokenizer::Parts parts;
  parts.model = std::move(json.model);
  parts.added = std::move(json.added);
  parts.around = std::move(json.around);
  parts.decoder = std::move(json.decoder);
  return Tokenizer(std::move(parts), source);
}

bool is_tokenizer_file(std::string_view name) {
  return std::find(std::begin(kFiles), std::end(kFiles), name) != std::end(kFiles);
}

std::vector<std::filesystem::path> tokenizer_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const std::string_view name : kFiles) {
    if (std::filesystem::is_regular_file(folder / name)) files.push_back(folder / name);
  }
  return files;
}

}  // namespace viaduct
