#pragma once
// JSON of files that nobody vouches for: parsed with limits, so that a hostile file is an IoError.
// A template over the JSON type keeps its heavy header out of this one.

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/error.h"

namespace viaduct {

struct JsonLimits {
  size_t depth = 16;                        // of nested objects and arrays
  size_t array_elements = size_t{1} << 24;  // of any one array
};

/// A name from a file as it may appear in a message: one line, control bytes replaced, cut where it
/// is very long.
std::string shown_name(std::string_view name);

/// Parses `text`; IoError that starts with `where` if it is not JSON, is nested deeper or has
/// longer arrays than the limits, holds a key twice in an object, or anything follows the document.
template <class Json>
Json parse_strict_json(std::string_view text, const JsonLimits& limits, const std::string& where) {
  struct Level {
    std::unordered_set<std::string> keys;
    size_t elements = 0;
  };
  using Event = typename Json::parse_event_t;
  std::vector<Level> levels;
  const auto count_element = [&] {
    if (levels.empty()) return;
    VIADUCT_CHECK(IoError, ++levels.back().elements <= limits.array_elements,
                  "{}: an array has more than {} elements", where, limits.array_elements);
  };
  const auto guard = [&](int, Event event, Json& parsed) {
    switch (event) {
      case Event::object_start:
      case Event::array_start:
        count_element();
        VIADUCT_CHECK(IoError, levels.size() < limits.depth, "{}: nested deeper than {} levels",
                      where, limits.depth);
        levels.emplace_back();
        break;
      case Event::object_end:
      case Event::array_end:
        levels.pop_back();
        break;
      case Event::key: {
        const auto& key = parsed.template get_ref<const std::string&>();
        VIADUCT_CHECK(IoError, levels.back().keys.insert(key).second, "{}: \"{}\" is there twice",
                      where, shown_name(key));
        levels.back().elements = 0;  // the value that follows is no array element
        break;
      }
      case Event::value:
        count_element();
        break;
    }
    return true;
  };
  // The parser would take a zero byte for the end of the text.
  VIADUCT_CHECK(IoError, text.find('\0') == std::string_view::npos,
                "{}: a zero byte inside JSON text", where);
  try {
    return Json::parse(text.begin(), text.end(), guard);
  } catch (const typename Json::exception& error) {
    fail<IoError>("{}: not valid JSON: {}", where, shown_name(error.what()));
  }
}

}  // namespace viaduct
