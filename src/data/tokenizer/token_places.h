#pragma once
// Where the tokens of an encoded text come from: characters of the text, as Hugging Face's
// tokenizers library reports them ("offsets").

#include <cstddef>
#include <string_view>
#include <vector>

#include "data/tokenizer/tracked_text.h"

namespace viaduct {

/// Characters [begin, end) of the text; both are 0 for a token that the template adds.
struct TokenSpan {
  size_t begin = 0, end = 0;

  bool operator==(const TokenSpan&) const = default;
};

/// Collects the places of tokens while a text is encoded.
class TokenPlaces {
 public:
  /// Characters of white space at the ends of what a token is known by.
  struct Spaces {
    size_t before = 0, after = 0;
  };
  static Spaces spaces_of(std::string_view spelling);
  /// The next token: its bytes of the original, and what it is known by, or the spaces of that.
  void add(TextPlace place, std::string_view spelling) { add(place, spaces_of(spelling)); }
  void add(TextPlace place, Spaces spaces) { places_.push_back({place, spaces}); }
  size_t size() const { return places_.size(); }

  /// Leaves out white space at the ends of tokens. `added_space`: a single space at the begin of
  /// the first token may be one that the tokenizer put there.
  struct Trim {
    bool added_space = true;
    bool behind_template = false;  // the template's tokens come first, if they are asked for
  };
  /// The characters of `text`, the original, after `trims`, one after the other.
  std::vector<TokenSpan> spans(std::string_view text, const std::vector<Trim>& trims,
                               bool with_template) const;

 private:
  struct Entry {
    TextPlace place;
    Spaces spaces;
  };
  std::vector<Entry> places_;
};

}  // namespace viaduct
