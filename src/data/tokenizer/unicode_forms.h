#pragma once
// Unicode's normalization forms and lower case, as Hugging Face's tokenizers package has them
// (unicode_tables.h). Time and memory are linear in the text.

#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/tracked_text.h"

namespace viaduct {

/// The Unicode normalization forms.
enum class NormalForm { nfc, nfd, nfkc, nfkd };

/// False if `text` (well-formed UTF-8) is certainly in the form already.
bool may_change(std::string_view text, NormalForm form);
/// `text` in the form.
std::string to_form(std::string_view text, NormalForm form);
/// The same as changes of `text`. What a composition takes counts where it is composed, as in the
/// library, also if other marks stand between.
std::vector<CharacterChange> changes_to_form(std::string_view text, NormalForm form);

/// The lower case of each character for itself.
std::string to_lower_case(std::string_view text);

}  // namespace viaduct
