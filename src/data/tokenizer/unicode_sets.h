#pragma once
// The classes of characters that patterns and the steps around them name, as Hugging Face's
// tokenizers package has them.

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "data/tokenizer/code_point_set.h"

namespace viaduct {

/// The version of Unicode of the classes of regular expressions: "16.0.0".
std::string_view unicode_version();
/// The version of the tokenizers package whose tables these are.
std::string_view unicode_source_version();

/// The set of a property: a general category ("Lu", "Uppercase_Letter"), a script or a property
/// with two values ("Alpha", "Emoji"). Case, spaces, '_' and '-' do not matter. Nothing if unknown.
std::optional<CodePointSet> property_set(std::string_view name);

/// The set behind [:name:] in brackets; nothing if there is no such name.
std::optional<CodePointSet> posix_set(std::string_view name);

/// Characters as (?i) takes them for one another.
class CaseFolding {
 public:
  CaseFolding();
  /// `set` and all that differs from its characters only in case.
  CodePointSet closure(const CodePointSet& set) const;
  /// Texts of several characters that a character of `set` stands for: "ss" for U+00DF.
  std::vector<std::u32string> longer(const CodePointSet& set) const;
  /// The characters that stand for `text` of several characters.
  CodePointSet standing_for(std::u32string_view text) const;

 private:
  std::map<char32_t, char32_t> first_;               // the first of a character's group
  std::map<char32_t, std::vector<char32_t>> group_;  // the others of a group
  std::map<char32_t, std::u32string> long_;
};

}  // namespace viaduct
