#pragma once
// A setting that is `auto` until the program decides, or a value given by the user.

#include <optional>
#include <utility>

namespace viaduct {

/// `auto`, or a T. The owner resolves it once (`resolve`), so that printed and stored
/// configurations hold no `auto`.
template <class T>
class Auto {
 public:
  Auto() = default;
  Auto(T value) : value_(std::move(value)) {}  // NOLINT: a plain value is a setting

  bool is_auto() const { return !value_.has_value(); }
  /// The value; it must have been given or resolved.
  const T& value() const { return value_.value(); }
  const T& value_or(const T& other) const { return value_ ? *value_ : other; }
  /// Replaces `auto` by its value; a user's value stays.
  void resolve(T value) {
    if (!value_) value_ = std::move(value);
  }
  bool operator==(const Auto&) const = default;

 private:
  std::optional<T> value_;
};

}  // namespace viaduct
