#pragma once
// What settings of Hugging Face's training programs and config.json are called here: for `viaduct
// knobs`, and for the suggestion in the error about an unknown field.

#include <span>
#include <string>
#include <string_view>

namespace viaduct {

struct ForeignWord {
  std::string_view word;   // "learning_rate"
  std::string_view field;  // "optimizer.lr"
  std::string_view how;    // what else to know; empty: the same value
};

std::span<const ForeignWord> foreign_words();

/// The entry of a word, in any case and with '-' or '_'; nullptr if there is none. A section before
/// the word ("train.learning_rate", "--learning_rate") does not matter.
const ForeignWord* find_foreign_word(std::string_view name);

/// `name` in lower case, with '_' for '-' and ' ', and without leading ones: how names are compared
/// in searches.
std::string search_form(std::string_view name);

}  // namespace viaduct
