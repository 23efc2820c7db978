#include "base/json_members.h"

#include "base/error.h"
#include "base/json.h"
#include "base/json_reader.h"

namespace viaduct {

std::optional<nlohmann::json> read_json_object(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  auto document = read_json<nlohmann::json>(path);
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
                          std::string_view where, std::string_view otherwise) {
  const auto* member = find_member(object, name);
  if (member == nullptr) return std::string(otherwise);
  VIADUCT_CHECK(IoError, member->is_string(), "{}: \"{}\" must be a string, found {}", where, name,
                member->type_name());
  return member->get<std::string>();
}

bool bool_member(const nlohmann::json& object, std::string_view name, std::string_view where,
                 bool otherwise) {
  const auto* member = find_member(object, name);
  if (member == nullptr) return otherwise;
  VIADUCT_CHECK(IoError, member->is_boolean(), "{}: \"{}\" must be true or false, found {}", where,
                name, member->type_name());
  return member->get<bool>();
}

}  // namespace viaduct
