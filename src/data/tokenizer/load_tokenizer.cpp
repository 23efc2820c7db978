// Loads a tokenizer from its files.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "base/error.h"
#include "base/file.h"
#include "base/given_path.h"
#include "base/json.h"
#include "base/json_members.h"
#include "data/tokenizer/folder_tokens.h"
#include "data/tokenizer/sentencepiece_kind.h"
#include "data/tokenizer/sentencepiece_pipeline.h"
#include "data/tokenizer/special_ids.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/tokenizer_files.h"
#include "data/tokenizer/tokenizer_json.h"
#include "data/tokenizer/vocabulary_files.h"

namespace viaduct {
namespace {

/// The pattern of Mistral's tokenizers with large vocabularies, as transformers corrects it.
constexpr std::string_view kMistralPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// The special tokens of a `tokenizer.model`, as far as `model` has them under the same ids.
SpecialIds same_special_ids(const TokenizerFiles& files, const char* name,
                            const TokenModel& model) {
  const SentencePieces pieces = read_sentencepieces(files.text(name), files.where(name));
  const auto same = [&](int32_t id) {
    const bool known = id >= 0 && static_cast<size_t>(id) < pieces.pieces.size() &&
                       model.token(id) == pieces.pieces[static_cast<size_t>(id)].text;
    return known ? std::optional(id) : std::nullopt;
  };
  return {same(pieces.begin_id), same(pieces.end_id), same(pieces.padding_id), {}, {}};
}

/// "add_bos_token" and "add_eos_token" of the configuration, with the tokens of these ids.
TokenTemplate configured_template(const TokenizerFiles& files, std::optional<int32_t> begin,
                                  std::optional<int32_t> end) {
  TokenTemplate around;
  const auto config = files.object(kTokenizerConfigurationFile);
  if (!config) return around;
  const std::string where = files.where(kTokenizerConfigurationFile);
  if (bool_member(*config, "add_bos_token", where, false) && begin) around.before.push_back(*begin);
  if (bool_member(*config, "add_eos_token", where, false) && end) around.after.push_back(*end);
  return around;
}

/// "split_special_tokens" of the configuration.
bool splits_special_tokens(const TokenizerFiles& files) {
  const auto config = files.object(kTokenizerConfigurationFile);
  return config && bool_member(*config, "split_special_tokens",
                               files.where(kTokenizerConfigurationFile), false);
}

/// "clean_up_tokenization_spaces" of the configuration. As transformers 5, which cleans the text of
/// BPE tokenizers only where a second member insists on it.
bool cleans_spaces(const TokenizerFiles& files, const TokenModel& model) {
  const auto config = files.object(kTokenizerConfigurationFile);
  if (!config) return false;
  const std::string where = files.where(kTokenizerConfigurationFile);
  const auto is_set = [&](std::string_view name) {
    return bool_member(*config, name, where, false);
  };
  return is_set("clean_up_tokenization_spaces") &&
         (!model.is_bpe() ||
          is_set("clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output"));
}

/// "fast_tokenizer_files" names further versions of tokenizer.json, and transformers reads the
/// newest that is not newer than itself.
void refuse_further_versions(const TokenizerFiles& files) {
  const auto config = files.object(kTokenizerConfigurationFile);
  const auto* named = config ? find_member(*config, "fast_tokenizer_files") : nullptr;
  if (named == nullptr || !named->is_array()) return;
  for (const auto& name : *named) {
    VIADUCT_CHECK(ConfigError, name == kTokenizerFile,
                  "{}: fast_tokenizer_files names {}, a version of {} for some versions of "
                  "transformers, which is not supported; keep the version that the model was "
                  "trained with as {}, and leave out the member",
                  files.where(kTokenizerConfigurationFile), name.dump(), kTokenizerFile,
                  kTokenizerFile);
  }
}

/// "fix_mistral_regex" makes transformers put another pattern in the place of the file's, for large
/// vocabularies in folders of Mistral's models that an older version of it wrote.
void refuse_another_pattern(const TokenizerFiles& files) {
  constexpr size_t kLargeVocabulary = 100000;
  constexpr std::string_view kTypes[] = {"mistral", "mistral3", "voxtral", "ministral", "pixtral"};
  constexpr const char* kFlag = "fix_mistral_regex";
  const auto config = files.object(kTokenizerConfigurationFile);
  const auto architecture = files.object("config.json");
  if (!config || !architecture) return;
  const std::string where = files.where("config.json");
  const std::string type = string_member(*architecture, "model_type", where);
  const std::string version = string_member(*architecture, "transformers_version", where, "0");
  const bool applies = (type.empty() || std::count(std::begin(kTypes), std::end(kTypes), type)) &&
                       std::strtol(version.c_str(), nullptr, 10) < 5;
  if (!applies || !bool_member(*config, kFlag, files.where(kTokenizerConfigurationFile), false))
    return;
  const auto document = files.object(kTokenizerFile);
  const auto* model = find_member(*document, "model");
  const auto* vocabulary = model == nullptr ? nullptr : find_member(*model, "vocab");
  if (vocabulary == nullptr || vocabulary->size() <= kLargeVocabulary) return;
  // Files that were saved afterwards have that pattern.
  const auto* steps = find_member(*document, "pre_tokenizer");
  const auto* list = steps == nullptr ? nullptr : find_member(*steps, "pretokenizers");
  const auto* pattern = list == nullptr || !list->is_array() || list->empty()
                            ? nullptr
                            : find_member(list->front(), "pattern");
  VIADUCT_CHECK(
      ConfigError, pattern != nullptr && string_member(*pattern, "Regex", where) == kMistralPattern,
      "{}: {} is not supported with this {}: transformers puts another pattern in the "
      "place of the file's; in transformers, "
      "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(OTHER) writes the changed one",
      files.where(kTokenizerConfigurationFile), kFlag, kTokenizerFile);
}

/// Says what the folder has instead of a tokenizer that is read.
[[noreturn]] void fail_without_tokenizer(const TokenizerFiles& files) {
  constexpr std::pair<const char*, const char*> kOthers[] = {
      {"vocab.txt", "the vocabulary of a WordPiece or WordLevel model, which is not supported"},
      {"tekken.json", "a vocabulary of Mistral's Tekken, which is not read"},
      {"tiktoken.model", "a vocabulary of tiktoken, which is not read"},
      {"qwen.tiktoken", "a vocabulary of tiktoken, which is not read"},
      {"cl100k_base.tiktoken", "a vocabulary of tiktoken, which is not read"},
      {"o200k_base.tiktoken", "a vocabulary of tiktoken, which is not read"},
      {kMergesFile, "which needs vocab.json beside it"},
      {kVocabularyFile, "which needs merges.txt beside it"}};
  std::string found;
  for (const auto& [name, what] : kOthers) {
    if (found.empty() && files.has(name)) {
      found = fmt::format("; it has {}, {}", name, what);
      if (name != kMergesFile && name != kVocabularyFile && name != kOthers[0].first)
        found += " (a tokenizer.json of the same tokenizer is)";
    }
  }
  fail<IoError>(
      "no tokenizer in {}: expected tokenizer.json, tokenizer.model (or spiece.model, "
      "sentencepiece.bpe.model), or vocab.json with merges.txt{}",
      files.where(), found);
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
  const char* pieces_file = sentencepiece_file(files);
  const bool has_json = files.has(kTokenizerFile);
  const bool has_model = pieces_file != nullptr;
  const bool has_vocabulary = files.has(kVocabularyFile) && files.has(kMergesFile);
  Tokenizer::Parts parts;
  std::string source = files.where(kTokenizerFile);
  SpecialIds otherwise;
  std::optional<NamedBorder> border;
  FolderTokens tokens(files);
  TokenizerJson json;
  if (has_json) {
    refuse_further_versions(files);
    refuse_another_pattern(files);
    const auto unsupported = has_model || has_vocabulary ? UnsupportedModel::left_to_other_files
                                                         : UnsupportedModel::refused;
    json = parse_tokenizer_json(files.text(kTokenizerFile), source, unsupported);
    parts.added = std::move(json.added);
    parts.around = std::move(json.around);
  }
  const bool json_model = json.model != nullptr;
  if (json_model) {
    parts.model = std::move(json.model);
    parts.decoder = std::move(json.decoder);
    if (has_model && !files.has(kTokenizerConfigurationFile))
      otherwise = same_special_ids(files, pieces_file, *parts.model);
  } else if (has_model) {
    source = files.where(pieces_file);
    SentencePieces pieces = read_sentencepieces(files.text(pieces_file), source);
    const int32_t padding = pieces.padding_id;
    const SentencePieceKind kind = sentencepiece_kind(files);
    check_sentencepiece_file(kind, pieces_file, files);
    auto made = make_sentencepiece_pipeline(std::move(pieces), kind, files, source, tokens);
    border = made.border;
    parts.model = std::move(made.model);
    parts.decoder = std::move(made.decoder);
    if (padding >= 0 && parts.model->token(padding)) otherwise.pad = padding;
  } else if (has_vocabulary) {
    source = files.where(kVocabularyFile);
    auto made = read_vocabulary_files(files, tokens);
    border = made.border;
    if (border && !has_json) parts.around.trims = made.trims;
    parts.model = std::move(made.model);
    std::vector<DecodeStep> steps;
    steps.emplace_back(DecodeSimple::byte_letters);
    parts.decoder = TextDecoder(std::move(steps), source);
    // RoBERTa's classes have it among their words, as a text.
    if (const auto end = parts.model->find("<|endoftext|>"); end && !has_json && !border) {
      AddedToken token;
      token.id = *end;
      token.content = "<|endoftext|>";
      token.special = true;
      parts.added.push_back(std::move(token));
    }
  } else {
    fail_without_tokenizer(files);
  }
  parts.cleans_spaces = cleans_spaces(files, *parts.model);
  parts.splits_special = splits_special_tokens(files);
  tokens.add_to(parts.added, *parts.model);
  const auto named = [&](const char* name) -> std::optional<int32_t> {
    const auto content = name == nullptr ? std::nullopt : tokens.named(name);
    if (!content) return std::nullopt;
    for (const AddedToken& token : parts.added) {
      if (token.content == *content) return token.id;
    }
    return parts.model->find(*content);
  };
  if (const auto id = named("bos_token")) otherwise.bos = id;
  if (const auto id = named("eos_token")) otherwise.eos = id;
  if (const auto id = named("pad_token")) otherwise.pad = id;
  parts.special = read_special_ids(files, *parts.model, parts.added, otherwise);
  for (const char* name : kTokenRoles)
    if (const auto id = named(name)) parts.special.named[name] = *id;
  if (border && !has_json) {
    if (const auto id = named(border->before)) parts.around.before = {*id};
    if (const auto id = named(border->after)) parts.around.after = {*id};
  } else if (!has_json) {
    // Ids of config.json alone count only where no class and no file gives a name.
    const auto token = [&](const char* name, std::optional<int32_t> id) {
      return tokens.gives(name) ? named(name) : id;
    };
    parts.around = configured_template(files, token("bos_token", parts.special.bos),
                                       token("eos_token", parts.special.eos));
  }
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
  return std::find(std::begin(kTokenizerFiles), std::end(kTokenizerFiles), name) !=
         std::end(kTokenizerFiles);
}

std::vector<std::filesystem::path> tokenizer_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const char* name : kTokenizerFiles) {
    if (std::filesystem::is_regular_file(folder / name)) files.push_back(folder / name);
  }
  return files;
}

}  // namespace viaduct
