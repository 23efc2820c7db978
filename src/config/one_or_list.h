#pragma once
// A setting that is one value for all, or a list with one value for each (for instance one for each
// layer).

#include <string>
#include <utility>
#include <vector>

#include "config/convert.h"

namespace viaduct {

template <class T>
class OneOrList {
 public:
  OneOrList() = default;
  OneOrList(T one) : values_{std::move(one)} {}  // NOLINT: a plain value is a setting
  OneOrList(std::vector<T> list) : values_(std::move(list)), is_list_(true) {}  // NOLINT

  bool is_list() const { return is_list_; }
  /// The value at index i; a list must be long enough.
  const T& at(size_t i) const { return values_.at(is_list_ ? i : 0); }
  /// One value, or all of the list.
  const std::vector<T>& values() const { return values_; }
  bool operator==(const OneOrList&) const = default;

 private:
  std::vector<T> values_{T{}};
  bool is_list_ = false;
};

template <class T>
struct TypeName<OneOrList<T>> {
  static std::string text() { return TypeName<T>::text() + " or list of " + TypeName<T>::text(); }
};

template <class T>
struct NamesOf<OneOrList<T>> : NamesOf<T> {};

template <class T>
bool read_value(const Value& value, OneOrList<T>& target) {
  if (value.is_list()) {
    std::vector<T> list;
    if (!read_value(value, list)) return false;
    target = OneOrList<T>(std::move(list));
    return true;
  }
  T one{};
  if (!read_value(value, one)) return false;
  target = OneOrList<T>(std::move(one));
  return true;
}

template <class T>
Value write_value(const OneOrList<T>& value) {
  return value.is_list() ? write_value(value.values()) : write_value(value.values().front());
}

}  // namespace viaduct
