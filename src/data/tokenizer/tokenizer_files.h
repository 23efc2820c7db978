#pragma once
// The files that make up a tokenizer: those of a folder, or texts that another file holds under the
// same names.

#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>

namespace viaduct {

// Names of the files of a tokenizer in a Hugging Face folder.
inline constexpr const char *kTokenizerFile = "tokenizer.json",
                            *kTokenizerConfigurationFile = "tokenizer_config.json",
                            *kSpecialTokensFile = "special_tokens_map.json",
                            *kAddedTokensFile = "added_tokens.json",
                            *kVocabularyFile = "vocab.json", *kMergesFile = "merges.txt";
/// Names that publishers give a SentencePiece model, in the order in which they are looked for.
inline constexpr const char* kSentencePieceFiles[] = {"tokenizer.model", "spiece.model",
                                                      "sentencepiece.bpe.model"};
/// All of them: the one list of what makes up a tokenizer and is kept beside a model.
inline constexpr const char* kTokenizerFiles[] = {
    kTokenizerFile,         kSentencePieceFiles[0],
    kSentencePieceFiles[1], kSentencePieceFiles[2],
    kVocabularyFile,        kMergesFile,
    kAddedTokensFile,       kTokenizerConfigurationFile,
    kSpecialTokensFile};

/// Defaults of sampling, and the ids that end texts.
inline constexpr const char* kGenerationFile = "generation_config.json";

/// Where a Hugging Face folder keeps further chat templates, as NAME.jinja.
inline constexpr const char* kTemplatesFolder = "additional_chat_templates";
inline constexpr const char* kTemplateEnd = ".jinja";

class TokenizerFiles {
 public:
  /// None at all.
  TokenizerFiles() : texts_(std::in_place) {}
  explicit TokenizerFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}
  /// `where` names the file that holds them in messages.
  TokenizerFiles(std::filesystem::path where, std::map<std::string, std::string> texts)
      : folder_(std::move(where)), texts_(std::move(texts)) {}

  bool has(const std::string& name) const;
  /// IoError if it is missing, or larger than any tokenizer is.
  std::string text(const std::string& name) const;
  /// The JSON of a file, which must be an object; nothing if there is no such file.
  std::optional<nlohmann::json> object(const std::string& name) const;
  /// For messages.
  std::string where(const std::string& name) const { return (folder_ / name).string(); }
  std::string where() const { return folder_.string(); }

 private:
  std::filesystem::path folder_;
  std::optional<std::map<std::string, std::string>> texts_;
};

}  // namespace viaduct
