#pragma once
// JSON of files that nobody vouches for: parsed with limits, so that a hostile file is an IoError.
// A template over the JSON type keeps its heavy header out of this one.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "tensor/shape.h"

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

/// The value as a count (0 … 2^63 − 1), nothing if it is something else.
template <class Json>
std::optional<int64_t> json_count(const Json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  const auto number = value.template get<uint64_t>();
  if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  return static_cast<int64_t>(number);
}

/// An array of counts as a Shape; the product of its sizes and `element_bytes` is known to fit
/// int64. IoError that starts with `where` and names `field` otherwise.
template <class Json>
Shape json_shape(const Json& value, int64_t element_bytes, const char* field,
                 const std::string& where) {
  VIADUCT_CHECK(IoError, value.is_array(), "{}: \"{}\" is not an array", where, field);
  VIADUCT_CHECK(IoError, value.size() <= Shape::kMaxRank,
                "{}: \"{}\" has {} dims, at most {} are supported", where, field, value.size(),
                Shape::kMaxRank);
  Shape shape;
  int64_t bytes = element_bytes;
  for (const auto& dim : value) {
    const auto size = json_count(dim);
    VIADUCT_CHECK(IoError, size, "{}: a size in \"{}\" is not a count", where, field);
    // A zero size would hide an overflow of the others, so it multiplies as one.
    const bool overflow = __builtin_mul_overflow(bytes, std::max<int64_t>(*size, 1), &bytes);
    VIADUCT_CHECK(IoError, !overflow, "{}: the sizes in \"{}\" overflow", where, field);
    shape.append(*size);
  }
  return shape;
}

}  // namespace viaduct
