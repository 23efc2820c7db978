#pragma once
// Calls a function with every field of a plain struct, in order, without a separate list of the
// fields. C++20 has no reflection: the number of fields is the largest number of values that can
// initialise the struct, and a structured binding with that many names gives the fields.

#include <cstddef>
#include <type_traits>
#include <utility>

namespace viaduct {
namespace detail {

inline constexpr size_t kMostFields = 20;

/// Converts to the type of any field; never called.
struct AnyField {
  template <class T>
  operator T() const;
};

template <class T, size_t... I>
constexpr bool takes_values(std::index_sequence<I...>) {
  return requires {
    T{(static_cast<void>(I), AnyField{})...};
  };
}

template <class T, size_t N = kMostFields + 1>
constexpr size_t field_count() {
  if constexpr (N == 0 || takes_values<T>(std::make_index_sequence<N>())) {
    return N;
  } else {
    return field_count<T, N - 1>();
  }
}

}  // namespace detail

/// `f(field)` for each field of `value`, an aggregate without base classes, of at most 20 fields.
template <class T, class F>
void for_each_field(const T& value, F&& f) {
  constexpr size_t kCount = detail::field_count<T>();
  static_assert(std::is_aggregate_v<T> && kCount <= detail::kMostFields);
  const auto all = [&](const auto&... fields) { (f(fields), ...); };
  // clang-format off
  if constexpr (kCount == 0) {
  } else if constexpr (kCount == 1) {
    const auto& [a0] = value; all(a0);
  } else if constexpr (kCount == 2) {
    const auto& [a0, a1] = value; all(a0, a1);
  } else if constexpr (kCount == 3) {
    const auto& [a0, a1, a2] = value; all(a0, a1, a2);
  } else if constexpr (kCount == 4) {
    const auto& [a0, a1, a2, a3] = value; all(a0, a1, a2, a3);
  } else if constexpr (kCount == 5) {
    const auto& [a0, a1, a2, a3, a4] = value; all(a0, a1, a2, a3, a4);
  } else if constexpr (kCount == 6) {
    const auto& [a0, a1, a2, a3, a4, a5] = value; all(a0, a1, a2, a3, a4, a5);
  } else if constexpr (kCount == 7) {
    const auto& [a0, a1, a2, a3, a4, a5, a6] = value; all(a0, a1, a2, a3, a4, a5, a6);
  } else if constexpr (kCount == 8) {
    const auto& [a0, a1, a2, a3, a4, a5, a6, a7] = value; all(a0, a1, a2, a3, a4, a5, a6, a7);
  } else if constexpr (kCount == 9) {
    const auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8] = value; all(a0, a1, a2, a3, a4, a5, a6, a7, a8);
  } else if constexpr (kCount == 10) {
    const auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9] = value; all(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9);
  } else if constexpr (kCount == 11) {
    const auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10] = value; all(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10);
  } else if constexpr (kCount == 12) {
    const auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11] = value; all(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11);
  } else if constexpr (kCount == 13) {
    const auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12] = value; all(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12);
  } else if constexpr (kCount == 14) {
    const auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13] = value; all(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13);
  } else if constexpr (kCount == 15) {
    const auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14] = value; all(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14);
  } else if constexpr (kCount == 16) {
    const auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15] = value; all(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15);
  } else if constexpr (kCount == 17) {
    const auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16] = value; all(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16);
  } else if constexpr (kCount == 18) {
    const auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17] = value; all(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17);
  } else if constexpr (kCount == 19) {
    const auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18] = value; all(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18);
  } else if constexpr (kCount == 20) {
    const auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19] = value; all(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19);
  }
  // clang-format on
}

}  // namespace viaduct
