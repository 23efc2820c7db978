#pragma once
// Decodes text token by token, up to the first stop string.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/tokenizer/tokenizer.h"

namespace viaduct {

/// ConfigError with every stop string that is empty, or that the tokens of `tokenizer` cannot
/// spell.
void check_stop_strings(const Tokenizer& tokenizer, const std::vector<std::string>& stops);

class StopText {
 public:
  /// `tokenizer` and the checked `stops` must outlive it. The text is what tokens add to that of
  /// `before`.
  StopText(const Tokenizer& tokenizer, const std::vector<std::string>& stops,
           std::span<const int32_t> before = {})
      : stream_(tokenizer, before), stops_(stops) {}

  /// The text that is final after the next token: whole characters, without an end that may begin a
  /// stop string. Empty after a stop string.
  std::string push(int32_t id) { return take(stream_.push(id)); }
  /// The remaining text after the last token.
  std::string finish();
  /// The stop string that ended the text; it is not part of it.
  const std::optional<std::string>& stopped_by() const { return stopped_by_; }

 private:
  std::string take(std::string more);

  DecodeStream stream_;
  const std::vector<std::string>& stops_;
  std::string held_;
  std::optional<std::string> stopped_by_;
};

}  // namespace viaduct
