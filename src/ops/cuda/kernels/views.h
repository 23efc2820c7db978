#pragma once
// How the launch half of an op passes tensors to a kernel: plain types without any CUDA header, the
// same for the C++ compiler and nvcc.

#include <cstdint>

struct CUstream_st;  // the runtime's

namespace viaduct::cuda {

using Stream = CUstream_st*;  // null: the default stream

/// Number formats that kernels read and write. They compute in FP32, and in FP64 where stated.
enum class Format : uint8_t { f32, bf16, f16, f64 };

/// A tensor as dense rows. Row r begins at element
/// r / (middle · inner) · strides[0] + r / inner % middle · strides[1] + r % inner · strides[2].
struct Rows {
  void* data = nullptr;  // null: no tensor
  Format format = Format::f32;
  int64_t middle = 1, inner = 1;
  int64_t strides[3] = {};  // in elements
};

/// A dense vector.
struct Vector {
  void* data = nullptr;
  Format format = Format::f32;
};

/// Whether 8 elements at any multiple of 8 may be read by accesses of 16 bytes.
inline bool is_wide(const void* data) {
  return reinterpret_cast<uintptr_t>(data) % 16 == 0;
}
inline bool is_wide(const Vector& vector) {
  return is_wide(vector.data);
}
inline bool is_wide(const Rows& rows) {
  return is_wide(rows.data) && (rows.strides[0] | rows.strides[1] | rows.strides[2]) % 8 == 0;
}

/// Reports that the device refused the launch of a kernel: DeviceError.
[[noreturn]] void launch_failed(const char* kernel, const char* reason);

}  // namespace viaduct::cuda
