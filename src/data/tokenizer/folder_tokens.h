#pragma once
// Added tokens that the files beside a tokenizer name: `tokenizer_config.json`, `added_tokens.json`
// and `special_tokens_map.json`, as Hugging Face's transformers reads them.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/special_tokens.h"
#include "data/tokenizer/token_model.h"
#include "data/tokenizer/tokenizer_files.h"

namespace viaduct {

/// The names of the special tokens before and after a text ("bos_token"); null: none.
struct NamedBorder {
  const char *before = nullptr, *after = nullptr;
};

/// What the files name:
///  - "added_tokens_decoder" of the configuration; without it `added_tokens.json`;
///  - the special tokens by name ("eos_token" …) of the configuration, and where it has no
///    "added_tokens_decoder", of `special_tokens_map.json`;
///  - "extra_special_tokens" and "additional_special_tokens".
class FolderTokens {
 public:
  /// IoError for malformed files.
  explicit FolderTokens(const TokenizerFiles& files);

  /// Tokens by the id that the files give.
  std::map<int32_t, AddedToken>& listed() { return listed_; }
  /// The special token of a name.
  std::optional<std::string> named(const std::string& name) const { return special_.named(name); }
  /// Whether the files or the kind say what a name means, be it no token.
  bool gives(const std::string& name) const { return special_.gives(name); }

  /// What a kind of tokenizer calls a special token if the files do not say; "": it has none.
  void name_by_default(const std::string& name, const std::string& content) {
    special_.name_by_default(name, content);
  }
  /// Tokens that count where the configuration has neither extra nor additional ones, whatever
  /// `special_tokens_map.json` says.
  void set_additional(const std::vector<AddedToken>& tokens) { special_.set_additional(tokens); }
  /// Special tokens lose all their other flags, as Qwen2's class has it.
  void make_special_plain() { special_are_plain_ = true; }

  /// Adds all of them to `added`, the tokens of the tokenizer's own file; those of the list replace
  /// tokens of the same content. A token that the model has keeps its id; others get the next one
  /// after all ids so far, in the order of the ids that the files give them, and not these: gaps
  /// close.
  void add_to(std::vector<AddedToken>& added, const TokenModel& model) const;

 private:
  SpecialTokens special_;
  std::map<int32_t, AddedToken> listed_;
  bool lists_all_ = false;  // "added_tokens_decoder" is there
  bool special_are_plain_ = false;
};

}  // namespace viaduct
