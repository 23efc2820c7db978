#pragma once
// The spaces before punctuation and English contractions that transformers leaves out of decoded
// text where a configuration says so ("clean_up_tokenization_spaces"), while the text grows.

#include <array>
#include <string>
#include <string_view>

namespace viaduct {

class SpaceCleanup {
 public:
  /// What is final of the text after `more`.
  std::string push(std::string more);
  /// The rest of the text.
  std::string finish();

 private:
  static constexpr size_t kSteps = 10;
  /// One step over the whole text: what may begin a match is held back until `last`.
  std::string replace(size_t step, std::string more, bool last);

  std::array<std::string, kSteps> held_;
};

}  // namespace viaduct
