#include "data/tokenizer/json_input.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"

namespace viaduct {
namespace {

constexpr size_t kMaxBytes = size_t{256} << 20;
constexpr int kMaxDepth = 64;

/// Copies and destructors of a document are recursive, so its depth must be bounded.
void check_depth(std::string_view text, std::string_view source) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      VIADUCT_CHECK(IoError, ++depth <= kMaxDepth, "{}: nested deeper than {} at byte {}", source,
                    kMaxDepth, i);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

}  // namespace

nlohmann::json parse_json(std::string_view text, std::string_view source) {
  VIADUCT_CHECK(IoError, text.size() <= kMaxBytes, "{}: {} bytes, more than the limit of {}",
                source, text.size(), kMaxBytes);
  check_depth(text, source);
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    fail<IoError>("{}: not JSON: {}", source, error.what());
  }
}

std::optional<nlohmann::json> read_json_object(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  auto document = parse_json(read_file(path, kMaxBytes), path.string());
  VIADUCT_CHECK(IoError, document.is_object(), "{}: expected a JSON object, found {}",
                path.string(), document.type_name());
  return document;
}

const nlohmann::json* find_member(const nlohmann::json& object, std::string_view name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(std::string(name));
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string string_member(const nlohmann::json& object, std::string_view name,
                          std::string_view source, std::string_view otherwise) {
  const auto* member = find_member(object, name);
  if (member == nullptr) return std::string(otherwise);
  VIADUCT_CHECK(IoError, member->is_string(), "{}: \"{}\" must be a string, found {}", source, name,
                member->type_name());
  return member->get<std::string>();
}

bool bool_member(const nlohmann::json& object, std::string_view name, std::string_view source,
                 bool otherwise) {
  const auto* member = find_member(object, name);
  if (member == nullptr) return otherwise;
  VIADUCT_CHECK(IoError, member->is_boolean(), "{}: \"{}\" must be true or false, found {}", source,
                name, member->type_name());
  return member->get<bool>();
}

int32_t token_id_of(const nlohmann::json& value, std::string_view source, std::string_view what) {
  constexpr int64_t kLargest = std::numeric_limits<int32_t>::max() - 1;
  VIADUCT_CHECK(IoError, value.is_number_integer(), "{}: the id of {} must be an integer, found {}",
                source, what, value.type_name());
  const bool fits = value.is_number_unsigned()
                        ? value.get<uint64_t>() <= static_cast<uint64_t>(kLargest)
                        : value.get<int64_t>() >= 0 && value.get<int64_t>() <= kLargest;
  VIADUCT_CHECK(IoError, fits, "{}: the id of {} is {}, expected 0 to {}", source, what,
                value.dump(), kLargest);
  return static_cast<int32_t>(value.get<int64_t>());
}

}  // namespace viaduct
