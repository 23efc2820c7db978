#pragma once
// Text as its tokens come, up to the first stop string in it.

#include <optional>
#include <string>
#include <vector>

#include "data/tokenizer/tokenizer.h"

namespace viaduct {

/// ConfigError that names every stop string that is empty, or that no tokens of `tokenizer` spell.
void check_stop_strings(const Tokenizer& tokenizer, const std::vector<std::string>& stops);

class StopText {
 public:
  /// `tokenizer` and `stops`, checked, outlive it.
  StopText(const Tokenizer& tokenizer, const std::vector<std::string>& stops)
      : stream_(tokenizer), stops_(stops) {}

  /// The text that is certain after the next token: whole characters, but for an end that may be
  /// the beginning of a stop string. After a stop string nothing comes.
  std::string push(int32_t id) { return take(stream_.push(id)); }
  /// What is left when no further token comes.
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
