#pragma once
// Tokens that are recognised in the text before any other processing (Hugging Face's "added
// tokens": end of text, chat marks, …).

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/function_ref.h"

namespace viaduct {

/// One added token and how it is recognised.
struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false;     // only if no word character is adjacent
  bool lstrip = false;          // includes the white space before it
  bool rstrip = false;          // includes the white space after it
  bool normalized = false;      // looked for in the normalized text
  bool special = false;         // can be treated as plain text on request
  std::string searched = {};    // what the normalizer leaves of `content`, if that differs: what is
                                // looked for if `normalized`, and what decoding shows
  bool was_normalized = false;  // in a spelling of the token that this one replaced
};

/// A set of added tokens. The leftmost match wins, and among those the longest.
class AddedTokens {
 public:
  AddedTokens() = default;
  /// Later tokens of the same content replace earlier ones; one that was special stays so.
  /// ConfigError for empty contents and
  /// contents of more than 4096 bytes, IoError for contents that are not UTF-8. `searched` counts
  /// as a content.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  const std::vector<AddedToken>& tokens() const { return tokens_; }
  const AddedToken* find(std::string_view content) const;
  const AddedToken* find(int32_t id) const;

  /// Cuts well-formed `text` in order into added tokens (`token`) and the text between
  /// (`plain`). Looks only for tokens whose `normalized` equals the argument, and not for special
  /// ones if `special_as_text`. As in Hugging Face's tokenizers, matches do not overlap, but a
  /// match may lie in the white space that the one before takes (`rstrip`): it counts as well.
  /// `token` also gets the part of `text` that it takes.
  void split(std::string_view text, bool normalized, bool special_as_text,
             FunctionRef<void(std::string_view)> plain,
             FunctionRef<void(int32_t, std::string_view)> token) const;

 private:
  /// A tree of bytes: `next` maps (node, byte) to a node, `token` a node to an index of `tokens_`.
  struct Trie {
    std::unordered_map<uint64_t, uint32_t> next;
    std::vector<int32_t> token{-1};
    std::array<bool, 256> starts{};

    void insert(std::string_view content, int32_t index);
    /// The longest token at `text[at]`: its index and end.
    std::optional<std::pair<int32_t, size_t>> longest(std::string_view text, size_t at) const;
  };

  std::vector<AddedToken> tokens_;
  std::unordered_map<std::string, size_t> by_content_;
  std::unordered_map<int32_t, size_t> by_id_;
  Trie raw_, normalized_;
};

}  // namespace viaduct
