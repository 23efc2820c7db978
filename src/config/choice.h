#pragma once
// A setting that is one of several values: an enum whose values have names, so that a misspelt one
// in the code does not compile. The folder that owns the enum declares the names beside it, in the
// order of its values:
//
//   enum class DecayGrowth { constant, linear, cosine };
//   constexpr auto choice_names(DecayGrowth) {
//     return std::to_array<std::string_view>({"constant", "linear", "cosine"});
//   }

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace viaduct {

template <class E>
concept NamedEnum = std::is_enum_v<E> && requires {
  choice_names(E{});
};

/// Its name in configurations and messages.
template <NamedEnum E>
constexpr std::string_view choice_name(E value) {
  return choice_names(value)[static_cast<size_t>(value)];
}

/// The same; `none` where there is no value.
template <NamedEnum E>
constexpr std::string_view choice_name_or(const std::optional<E>& value, std::string_view none) {
  return value ? choice_name(*value) : none;
}

/// "optimizer.optimizer = adam", for messages.
template <NamedEnum E>
std::string stated(std::string_view setting, E value) {
  return std::string(setting) + " = " + std::string(choice_name(value));
}

/// The value of a name; nothing for other names.
template <NamedEnum E>
constexpr std::optional<E> choice_of(std::string_view name) {
  constexpr auto names = choice_names(E{});
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<E>(found - names.begin());
}

/// The names of several values.
template <NamedEnum E>
std::vector<std::string_view> choice_names_of(const std::vector<E>& values) {
  std::vector<std::string_view> names;
  for (const E value : values) names.push_back(choice_name(value));
  return names;
}

template <NamedEnum E>
std::vector<std::string> all_choices() {
  constexpr auto names = choice_names(E{});
  return {names.begin(), names.end()};
}

}  // namespace viaduct
