#pragma once
// What readers and writers of the head of a GGUF file share.

#include <cstdint>
#include <string_view>

namespace viaduct::gguf_values {

inline constexpr std::string_view kMagic = "GGUF";
inline constexpr uint32_t kVersion = 3;

/// Types of values.
enum Kind : uint32_t { u8, i8, u16, i16, u32, i32, f32, flag, text, array, u64, i64, f64, kinds };

}  // namespace viaduct::gguf_values
