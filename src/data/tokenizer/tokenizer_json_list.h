#pragma once
// Lists in the text of a tokenizer.json, all of whose other bytes stay as they are. Its vocabulary
// may have hundreds of thousands of members, which no reader that keeps their order is for.

#include <string>
#include <string_view>
#include <vector>

namespace viaduct {

/// The list that `text`, a JSON object, has as its member `name`; empty where it has none. IoError,
/// with `where`, for what is no JSON.
std::string_view list_text(std::string_view text, std::string_view name, std::string_view where);
/// `text` with `list` as that member, which becomes the first one where there is none.
std::string with_list(std::string_view text, std::string_view name, std::string_view list,
                      std::string_view where);
/// `text`, a JSON object, with `entries` (JSON texts) at the end of the list that it has as its
/// member `name`; without one the list becomes its first member. The text has been read as JSON
/// before; IoError, with `where`, if the member is no list.
std::string with_longer_list(std::string_view text, std::string_view name,
                             const std::vector<std::string>& entries, std::string_view where);

}  // namespace viaduct
