// GgufKeys: typed access to the keys of a GGUF file.

#include <charconv>

#include "base/error.h"
#include "base/json_reader.h"
#include "checkpoint/gguf_metadata.h"

namespace viaduct {

bool GgufKeys::add(const std::string& key, GgufValue value) {
  return values_.emplace(key, std::move(value)).second;
}

template <class T>
const T* GgufKeys::find(const std::string& key, const char* expected) const {
  const auto at = values_.find(key);
  if (at == values_.end()) return nullptr;
  const T* value = std::get_if<T>(&at->second);
  // An empty array may be of any type.
  VIADUCT_CHECK(IoError, value != nullptr, "{}: \"{}\" is not {}", where_, shown_name(key),
                expected);
  return value;
}

int64_t GgufKeys::integer(const std::string& key, std::optional<int64_t> fallback) const {
  if (const auto* value = find<int64_t>(key, "an integer")) return *value;
  VIADUCT_CHECK(IoError, fallback, "{}: the key \"{}\" is missing", where_, key);
  return *fallback;
}

double GgufKeys::number(const std::string& key, std::optional<double> fallback) const {
  if (const auto* value = find<double>(key, "a number")) {
    const std::string digits = fmt::format("{}", static_cast<float>(*value));
    double shortest = *value;
    std::from_chars(digits.data(), digits.data() + digits.size(), shortest);
    return shortest;
  }
  VIADUCT_CHECK(IoError, fallback, "{}: the key \"{}\" is missing", where_, key);
  return *fallback;
}

bool GgufKeys::flag(const std::string& key, bool fallback) const {
  const auto* value = find<bool>(key, "true or false");
  return value != nullptr ? *value : fallback;
}

std::string GgufKeys::text(const std::string& key, std::optional<std::string> fallback) const {
  if (const auto* value = find<std::string>(key, "a text")) return *value;
  VIADUCT_CHECK(IoError, fallback, "{}: the key \"{}\" is missing", where_, key);
  return *fallback;
}

const std::vector<std::string>& GgufKeys::texts(const std::string& key) const {
  static const std::vector<std::string> none;
  const auto* value = find<std::vector<std::string>>(key, "an array of texts");
  return value != nullptr ? *value : none;
}

const std::vector<int64_t>& GgufKeys::integers(const std::string& key) const {
  static const std::vector<int64_t> none;
  const auto* value = find<std::vector<int64_t>>(key, "an array of integers");
  return value != nullptr ? *value : none;
}

const std::vector<double>& GgufKeys::numbers(const std::string& key) const {
  static const std::vector<double> none;
  const auto* value = find<std::vector<double>>(key, "an array of numbers");
  return value != nullptr ? *value : none;
}

}  // namespace viaduct
