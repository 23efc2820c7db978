#include "ops/cuda/launch/product_kind.h"

#include <fmt/format.h>

namespace viaduct::cuda {
namespace {

constexpr int64_t kMostAlignment = 16;

std::string_view scales_name(LibraryScales scales) {
  switch (scales) {
    case LibraryScales::none:
      return "none";
    case LibraryScales::matrix:
      return "matrix";
    case LibraryScales::lines_128:
      return "lines_128";
    case LibraryScales::squares_128:
      return "squares_128";
    case LibraryScales::lines_32:
      return "lines_32";
    case LibraryScales::lines_16:
      return "lines_16";
  }
  return "";
}

std::string key_of(const ProductKind::Matrix& matrix) {
  return fmt::format("{} rows {} stride {} aligned {} {} scales {}", dtype_name(matrix.format),
                     matrix.rows, matrix.stride, matrix.alignment,
                     matrix.contracted_last ? "plain" : "transposed", scales_name(matrix.scales));
}

}  // namespace

int64_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  int64_t bytes = kMostAlignment;
  while (address % static_cast<uintptr_t>(bytes) != 0) bytes /= 2;
  return bytes;
}

std::string describe(const ProductKind& kind) {
  const auto matrix = [&](const ProductKind::Matrix& of, int64_t columns) {
    return fmt::format("{} [{}, {}]{}", dtype_name(of.format), of.rows, columns,
                       of.contracted_last ? "" : " transposed");
  };
  return fmt::format("{} = {} · {}ᵀ", matrix(kind.d, kind.b.rows), matrix(kind.a, kind.contracted),
                     matrix(kind.b, kind.contracted));
}

std::string key_of(const ProductKind& kind) {
  std::string key =
      fmt::format("d: {}; a: {}; b: {}; contracted {}{}{}{}", key_of(kind.d), key_of(kind.a),
                  key_of(kind.b), kind.contracted, kind.accumulate ? "; adds" : "",
                  kind.bias ? "; bias" : "", kind.device_factor ? "; factor" : "");
  if (kind.spare_multiprocessors > 0)
    key += fmt::format("; spares {} multiprocessors", kind.spare_multiprocessors);
  return key;
}

int64_t result_bytes(const ProductKind& kind) {
  return ((kind.d.rows - 1) * kind.d.stride + kind.b.rows) * dtype_bytes(kind.d.format);
}

}  // namespace viaduct::cuda
