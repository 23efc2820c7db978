#pragma once
// JSON of untrusted files: parsed with limits, so that a hostile file is an IoError. A template
// over the JSON type keeps its heavy header out of this one.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tensor/shape.h"

namespace viaduct {

struct JsonLimits {
  size_t depth = 16;                        // of nested objects and arrays
  size_t array_elements = size_t{1} << 24;  // of any one array
};

/// A name from a file, made safe for a message: one line, control bytes replaced, truncated if very
/// long.
std::string shown_name(std::string_view name);

/// Builds a value from the parser's events in linear time: the parser's own callback scans the
/// whole parent after every child, which is quadratic.
template <class Json>
class StrictJsonBuilder {
 public:
  using Member = std::function<void(const std::string& name, Json&& value)>;

  /// With a `member`, the entries of the outermost object are passed to it one by one instead of
  /// being added to the result.
  StrictJsonBuilder(const JsonLimits& limits, const std::string& where, Member member)
      : limits_(limits), where_(where), member_(std::move(member)) {}

  Json take_root() { return std::move(root_); }

  // Callbacks of Json::sax_parse.
  bool null() { return add_value(nullptr); }
  bool boolean(bool value) { return add_value(value); }
  bool number_integer(typename Json::number_integer_t value) { return add_value(value); }
  bool number_unsigned(typename Json::number_unsigned_t value) { return add_value(value); }
  bool number_float(typename Json::number_float_t value, const std::string&) {
    return add_value(value);
  }
  bool string(std::string& value) { return add_value(std::move(value)); }
  bool binary(typename Json::binary_t&) { return false; }  // never in text
  bool start_object(size_t) { return open(Json::object(), false); }
  bool start_array(size_t) { return open(Json::array(), true); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    Level& level = levels_.back();
    VIADUCT_CHECK(IoError, level.keys.insert(name).second, "{}: \"{}\" is there twice", where_,
                  shown_name(name));
    level.key = std::move(name);
    return true;
  }
  bool parse_error(size_t, const std::string&, const typename Json::exception& error) {
    fail<IoError>("{}: not valid JSON: {}", where_, shown_name(error.what()));
  }

 private:
  struct Level {
    Json value;
    bool is_array = false;
    size_t elements = 0;                   // of an array
    std::string key;                       // of the entry that comes next
    std::unordered_set<std::string> keys;  // all so far
  };

  void count_element() {
    if (levels_.empty() || !levels_.back().is_array) return;
    VIADUCT_CHECK(IoError, ++levels_.back().elements <= limits_.array_elements,
                  "{}: an array has more than {} elements", where_, limits_.array_elements);
  }
  bool add_value(Json value) {
    count_element();
    store(std::move(value));
    return true;
  }
  bool open(Json empty, bool is_array) {
    count_element();
    VIADUCT_CHECK(IoError, levels_.size() < limits_.depth, "{}: nested deeper than {} levels",
                  where_, limits_.depth);
    levels_.push_back({std::move(empty), is_array, 0, {}, {}});
    return true;
  }
  bool close() {
    Json value = std::move(levels_.back().value);
    levels_.pop_back();
    store(std::move(value));
    return true;
  }
  void store(Json value) {
    if (levels_.empty()) {
      root_ = std::move(value);
      return;
    }
    Level& level = levels_.back();
    if (level.is_array) {
      level.value.push_back(std::move(value));
    } else if (member_ && levels_.size() == 1) {
      member_(level.key, std::move(value));
    } else {
      level.value.emplace(std::move(level.key), std::move(value));
    }
  }

  const JsonLimits& limits_;
  const std::string& where_;
  Member member_;
  std::vector<Level> levels_;
  Json root_;
};

/// Parses `text`, in time and memory linear in its length; IoError that starts with `where` if it
/// is not JSON, is nested deeper or has longer arrays than the limits, holds a key twice in an
/// object, or anything follows the document. With a `member`, each entry of the outermost object is
/// passed to it as soon as it is read, and the result is an empty object.
template <class Json>
Json parse_strict_json(std::string_view text, const JsonLimits& limits, const std::string& where,
                       typename StrictJsonBuilder<Json>::Member member = nullptr) {
  // The parser would take a zero byte for the end of the text.
  VIADUCT_CHECK(IoError, text.find('\0') == std::string_view::npos,
                "{}: a zero byte inside JSON text", where);
  StrictJsonBuilder<Json> builder(limits, where, std::move(member));
  Json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take_root();
}

/// The value as a count (0 … 2^63 − 1), nothing for any other value.
template <class Json>
std::optional<int64_t> json_count(const Json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  const auto number = value.template get<uint64_t>();
  if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  return static_cast<int64_t>(number);
}

/// An array of counts as a Shape; the product of its sizes and `element_bytes` fits int64. IoError
/// that starts with `where` and names `field` otherwise.
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
