#pragma once
// The reader of all JSON that this program did not just make: files and input that may be damaged
// or hostile. Templates over the JSON type keep its heavy header out of this one.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace viaduct {

struct JsonLimits {
  size_t bytes = size_t{256} << 20;         // of the whole text
  size_t depth = 64;                        // of nested objects and arrays
  size_t array_elements = size_t{1} << 24;  // of any one array
};

/// A name from a file, made safe for a message: one line, control bytes replaced, truncated if very
/// long.
std::string shown_name(std::string_view name);

/// The parser's message without the name of its exception class.
std::string shown_json_problem(std::string_view message);

/// Iterates over a text and counts the bytes that the parser has read, for messages.
class JsonBytes {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  JsonBytes(const char* at, size_t& taken) : at_(at), taken_(&taken) {}
  reference operator*() const { return *at_; }
  JsonBytes& operator++() {
    ++at_;
    ++*taken_;
    return *this;
  }
  JsonBytes operator++(int) {
    JsonBytes before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const JsonBytes& a, const JsonBytes& b) { return a.at_ == b.at_; }

 private:
  const char* at_;
  size_t* taken_;
};

/// Passes the parser's events of one document to `events` (the callbacks of Json::sax_parse) and
/// builds nothing; false if a callback returned false. `taken` counts the bytes that were read.
/// The only call of the library's parser.
template <class Json, class Events>
bool scan_json(std::string_view text, Events& events, size_t& taken) {
  return Json::sax_parse(JsonBytes(text.data(), taken), JsonBytes(text.data() + text.size(), taken),
                         &events);
}

/// Builds a value from the parser's events in linear time: the parser's own callback scans the
/// whole parent after every child, which is quadratic.
template <class Json>
class JsonBuilder {
 public:
  using Member = std::function<void(const std::string& name, Json&& value)>;

  /// With a `member`, the entries of the outermost object are passed to it one by one instead of
  /// being added to the result.
  JsonBuilder(const JsonLimits& limits, const std::string& where, const size_t& taken,
              Member member)
      : limits_(limits), where_(where), taken_(taken), member_(std::move(member)) {}

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
    VIADUCT_CHECK(IoError, level.keys.insert(name).second,
                  "{}: \"{}\" appears twice in one object, again at byte {}", where_,
                  shown_name(name), last_byte());
    level.key = std::move(name);
    return true;
  }
  bool parse_error(size_t taken, const std::string&, const typename Json::exception& error) {
    fail<IoError>("{}: not valid JSON at byte {}: {}", where_, taken == 0 ? 0 : taken - 1,
                  shown_json_problem(error.what()));
  }

 private:
  struct Level {
    Json value;
    bool is_array = false;
    size_t elements = 0;                   // of an array
    std::string key;                       // of the entry that comes next
    std::unordered_set<std::string> keys;  // of an object, so far
  };

  size_t last_byte() const { return taken_ == 0 ? 0 : taken_ - 1; }

  // An array that is too long is refused before its next element takes memory.
  void count_element() {
    if (levels_.empty() || !levels_.back().is_array) return;
    VIADUCT_CHECK(IoError, ++levels_.back().elements <= limits_.array_elements,
                  "{}: an array has more than {} elements at byte {}", where_,
                  limits_.array_elements, last_byte());
  }
  bool add_value(Json value) {
    count_element();
    store(std::move(value));
    return true;
  }
  bool open(Json empty, bool is_array) {
    count_element();
    VIADUCT_CHECK(IoError, levels_.size() < limits_.depth,
                  "{}: nested deeper than {} levels at byte {}", where_, limits_.depth,
                  last_byte());
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
  const size_t& taken_;
  Member member_;
  std::vector<Level> levels_;
  Json root_;
};

/// Parses `text`, in time and memory linear in its length. IoError that starts with `where` and has
/// the offset of the byte, if it is not JSON in UTF-8, is longer, nested deeper or has longer
/// arrays than the limits, holds a key twice in an object or a number beyond FP64, or anything
/// follows the document. An integer beyond 64 bits is read as FP64; readers of integers refuse it.
/// With a `member`, each entry of the outermost object is passed to it as soon as it is read, and
/// the result is an empty object.
template <class Json>
Json parse_json(std::string_view text, const std::string& where, const JsonLimits& limits = {},
                typename JsonBuilder<Json>::Member member = nullptr) {
  VIADUCT_CHECK(IoError, text.size() <= limits.bytes, "{}: {} bytes of JSON, at most {} are read",
                where, text.size(), limits.bytes);
  // The parser would take a zero byte for the end of the text.
  const size_t zero = text.find('\0');
  VIADUCT_CHECK(IoError, zero == std::string_view::npos, "{}: a zero byte inside JSON at byte {}",
                where, zero);
  size_t taken = 0;
  JsonBuilder<Json> builder(limits, where, taken, std::move(member));
  scan_json<Json>(text, builder, taken);
  return builder.take_root();
}

/// `parse_json` of a file.
template <class Json>
Json read_json(const std::filesystem::path& path, const JsonLimits& limits = {}) {
  return parse_json<Json>(read_file(path, limits.bytes), path.string(), limits);
}

/// `parse_json` where damage has no message of its own: nothing for a text that is refused.
template <class Json>
std::optional<Json> try_parse_json(std::string_view text, const JsonLimits& limits = {}) {
  try {
    return parse_json<Json>(text, "JSON", limits);
  } catch (const IoError&) {
    return std::nullopt;
  }
}

/// Whether the text is one JSON document; builds nothing, so it has no limits.
template <class Json>
bool is_json(std::string_view text) {
  struct Ignore : Json::json_sax_t {
    bool null() override { return true; }
    bool boolean(bool) override { return true; }
    bool number_integer(typename Json::number_integer_t) override { return true; }
    bool number_unsigned(typename Json::number_unsigned_t) override { return true; }
    bool number_float(typename Json::number_float_t, const std::string&) override { return true; }
    bool string(std::string&) override { return true; }
    bool binary(typename Json::binary_t&) override { return true; }
    bool start_object(size_t) override { return true; }
    bool key(std::string&) override { return true; }
    bool end_object() override { return true; }
    bool start_array(size_t) override { return true; }
    bool end_array() override { return true; }
    bool parse_error(size_t, const std::string&, const typename Json::exception&) override {
      return false;
    }
  } ignore;
  size_t taken = 0;
  return scan_json<Json>(text, ignore, taken);
}

/// The value as a count (0 … 2^63 − 1), nothing for any other value.
template <class Json>
std::optional<int64_t> json_count(const Json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  const auto number = value.template get<uint64_t>();
  if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  return static_cast<int64_t>(number);
}

}  // namespace viaduct
