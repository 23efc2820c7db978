#pragma once
// Unicode normalization before tokenization.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace viaduct {

/// The Unicode normalization forms.
enum class NormalForm { nfc, nfd, nfkc, nfkd };

/// Normalization forms applied one after the other; none by default.
struct Normalizer {
  std::vector<NormalForm> forms;

  /// The normalized text, or nothing where it equals `text` (which is well-formed UTF-8).
  std::optional<std::string> normalize(std::string_view text) const;
};

}  // namespace viaduct
