#pragma once
// Longer lists in the text of a tokenizer.json, all of whose other bytes stay as they are.

#include <string>
#include <string_view>
#include <vector>

namespace viaduct {

/// `text`, a JSON object, with `entries` (JSON texts) at the end of the list that it has as its
/// member `name`; without one the list becomes its first member. The text has been read as JSON
/// before; IoError, with `where`, if the member is no list.
std::string with_longer_list(std::string_view text, std::string_view name,
                             const std::vector<std::string>& entries, std::string_view where);

}  // namespace viaduct
