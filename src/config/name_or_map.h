#pragma once
// A setting that is a map, which its owner reads, or a name that its owner knows.

#include <string>

#include "config/convert.h"

namespace viaduct {

/// A string, a map, or null.
struct NameOrMap {
  Value value;

  bool is_name() const { return value.kind == Value::Kind::scalar; }
  const std::string& name() const { return value.scalar; }
};

template <>
struct TypeName<NameOrMap> {
  static std::string text() { return "string, map or null"; }
};

inline bool read_value(const Value& value, NameOrMap& target) {
  std::string name;
  if (!read_value(value, target.value) && !read_value(value, name)) return false;
  target.value = value;
  return true;
}

inline Value write_value(const NameOrMap& value) {
  return write_value(value.value);
}

}  // namespace viaduct
