#pragma once
// Short tokenizer.json documents for tests.

#include <nlohmann/json_fwd.hpp>

namespace viaduct::test {

/// The document with members that must be there and that a test leaves out: the flags of added
/// tokens (false, and `normalized` where it is not special), the members of the steps ByteLevel
/// (true).
nlohmann::json whole_tokenizer(nlohmann::json document);

}  // namespace viaduct::test
