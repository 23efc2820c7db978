#pragma once
// The special tokens that `tokenizer_config.json` and `special_tokens_map.json` name, as Hugging
// Face's transformers reads them. For the .cpp files of this folder.

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/tokenizer_files.h"

namespace viaduct {

/// Roles that tokens of every tokenizer may have.
inline constexpr const char* kTokenRoles[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                              "pad_token", "cls_token", "mask_token"};

/// A special token as a file gives it.
struct SpecialToken : AddedToken {
  enum class Form {
    text,
    object,
    marked_object,  // one of a list or of a configuration that says "__type"
  };
  Form form = Form::text;
};

class SpecialTokens {
 public:
  /// IoError for malformed files.
  void read_configuration(const TokenizerFiles& files);
  void read_map(const TokenizerFiles& files);

  /// In the order in which `transformers` adds them, which follows that of the members in the
  /// files. Tokens that are given as objects have the flags of the object, `special` too.
  std::vector<SpecialToken> in_order() const;
  /// A name that the files do not give; "": of no token.
  void name_by_default(const std::string& name, const std::string& content);
  void set_additional(const std::vector<AddedToken>& tokens);

  /// Whether the files or the class say what a name means, be it no token.
  bool gives(const std::string& name) const { return given_.contains(name); }
  std::optional<std::string> named(const std::string& name) const;
  /// Whether the content has a name, be it one that only this tokenizer has ("image_token"): such
  /// tokens are special, whatever their flags say.
  bool is_named(const std::string& content) const;
  /// Whether a token of `added_tokens.json` is special: transformers reads that file before it
  /// knows marked objects for tokens.
  bool is_special(const std::string& content) const;

 private:
  /// Tokens with names of their own: "image_token" and the like.
  using Members = std::vector<std::pair<std::string, SpecialToken>>;
  struct Document;

  Document read_document(const TokenizerFiles& files, const char* name, bool is_map);
  void take_extra(const nlohmann::ordered_json& extra, const Document& document);

  std::map<std::string, SpecialToken> named_;
  std::unordered_set<std::string> given_;  // names, also those of no token
  Members first_, own_;                    // in order; a name in both counts as in `own_`
  std::optional<std::vector<SpecialToken>> extra_;
  std::vector<SpecialToken> additional_;  // count where there are no extra ones
};

}  // namespace viaduct
