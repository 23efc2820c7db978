#pragma once
// Conversion of values to and from the types that a field may have: bool, int, int64_t, double,
// std::string, an enum with names (choice.h), std::vector<T>, std::optional<T> (null), Auto<T>
// (`auto`), and Value itself for a map that its owner reads.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/auto.h"
#include "config/choice.h"
#include "config/value.h"

namespace viaduct {

// read_value: false (target unspecified) if the value is not of the type. Integers may be written
// 1e6.
bool read_value(const Value& value, bool& target);
bool read_value(const Value& value, int& target);
bool read_value(const Value& value, int64_t& target);
bool read_value(const Value& value, double& target);
bool read_value(const Value& value, std::string& target);
bool read_value(const Value& value, Value& target);
/// A name that is none leaves the target as it is: the field names the ones there are
/// (Field::value_problem).
template <NamedEnum E>
bool read_value(const Value& value, E& target) {
  std::string name;
  if (!read_value(value, name)) return false;
  target = choice_of<E>(name).value_or(target);
  return true;
}

Value write_value(bool value);
Value write_value(int value);
Value write_value(int64_t value);
Value write_value(double value);
Value write_value(const std::string& value);
Value write_value(const Value& value);
template <NamedEnum E>
Value write_value(E value) {
  return write_value(std::string(choice_name(value)));
}

/// The type's name in messages and documentation: "int", "list of number", "bool or auto", "string
/// or null".
template <class T>
struct TypeName;
template <>
struct TypeName<bool> {
  static std::string text() { return "bool"; }
};
template <>
struct TypeName<int> {
  static std::string text() { return "int"; }
};
template <>
struct TypeName<int64_t> {
  static std::string text() { return "int"; }
};
template <>
struct TypeName<double> {
  static std::string text() { return "number"; }
};
template <>
struct TypeName<std::string> {
  static std::string text() { return "string"; }
};
template <NamedEnum E>
struct TypeName<E> {
  static std::string text() { return "string"; }
};
template <>
struct TypeName<Value> {
  static std::string text() { return "map or null"; }
};
template <class T>
struct TypeName<std::vector<T>> {
  static std::string text() { return "list of " + TypeName<T>::text(); }
};
template <class T>
struct TypeName<std::optional<T>> {
  static std::string text() { return TypeName<T>::text() + " or null"; }
};
template <class T>
struct TypeName<Auto<T>> {
  static std::string text() { return TypeName<T>::text() + " or auto"; }
};

/// The names of a type's values; empty for types that are no choices.
template <class T>
struct NamesOf {
  static std::vector<std::string> list() { return {}; }
};
template <NamedEnum E>
struct NamesOf<E> {
  static std::vector<std::string> list() { return all_choices<E>(); }
};
template <class T>
struct NamesOf<std::vector<T>> : NamesOf<T> {};
template <class T>
struct NamesOf<std::optional<T>> : NamesOf<T> {};
template <class T>
struct NamesOf<Auto<T>> : NamesOf<T> {};

template <class T>
bool read_value(const Value& value, std::vector<T>& target);
template <class T>
bool read_value(const Value& value, Auto<T>& target);

template <class T>
bool read_value(const Value& value, std::optional<T>& target) {
  // Users copy Python's spelling of null from the guides.
  if (value.is_null() || value.is_plain("None")) {
    target.reset();
    return true;
  }
  T inner{};
  if (!read_value(value, inner)) return false;
  target = std::move(inner);
  return true;
}

template <class T>
bool read_value(const Value& value, Auto<T>& target) {
  if (value.is_plain("auto")) {
    target = Auto<T>();
    return true;
  }
  T inner{};
  if (!read_value(value, inner)) return false;
  target = Auto<T>(std::move(inner));
  return true;
}

template <class T>
bool read_value(const Value& value, std::vector<T>& target) {
  if (!value.is_list() && !value.is_null()) return false;  // null: an empty list
  target.clear();
  for (const Value& item : value.items) {
    T inner{};
    if (!read_value(item, inner)) return false;
    target.push_back(std::move(inner));
  }
  return true;
}

template <class T>
Value write_value(const std::vector<T>& value);
template <class T>
Value write_value(const Auto<T>& value);

template <class T>
Value write_value(const std::optional<T>& value) {
  return value ? write_value(*value) : Value{};
}

template <class T>
Value write_value(const Auto<T>& value) {
  return value.is_auto() ? Value::of_scalar("auto") : write_value(value.value());
}

template <class T>
Value write_value(const std::vector<T>& value) {
  std::vector<Value> items;
  for (const T& item : value) items.push_back(write_value(item));
  return Value::of_list(std::move(items));
}

}  // namespace viaduct
