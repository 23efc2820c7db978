#include "ops/cuda/product_kind.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/cuda/regions.h"
#include "tensor/nvfp4.h"

namespace viaduct::cuda {
namespace {

/// The default of the library, which excludes kernels where it is promised less.
constexpr int64_t kMostAlignment = 256;

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

int64_t alignment_at(uint64_t address) {
  int64_t bytes = kMostAlignment;
  while (address % static_cast<uint64_t>(bytes) != 0) bytes /= 2;
  return bytes;
}

std::string key_of(const ProductKind::Matrix& matrix) {
  return fmt::format("{} rows {} stride {} aligned {} {} scales {}", dtype_name(matrix.format),
                     matrix.rows, matrix.stride, matrix.alignment,
                     matrix.contracted_last ? "plain" : "transposed", scales_name(matrix.scales));
}

}  // namespace

int64_t alignment_of(const void* data) {
  return alignment_at(reinterpret_cast<uintptr_t>(data));
}

ProductAlignments planned_alignments(const ProductLayout& layout, const GemmArgs& args) {
  const auto of = [](const LibraryOperand& operand, const Operand& from) {
    return alignment_at(
        static_cast<uint64_t>(operand.copied ? operand.values_at : from.values().offset_bytes()));
  };
  return {of(layout.a, args.a), of(layout.b, args.b),
          alignment_at(
              static_cast<uint64_t>(layout.own_place ? layout.product_at : args.c.offset_bytes()))};
}

std::optional<ProductKind> product_kind(const ProductLayout& layout, const GemmArgs& args,
                                        const ProductAlignments& alignments) {
  if (layout.rows == 0 || layout.columns == 0 || layout.contracted == 0) return std::nullopt;
  const auto matrix = [](const LibraryOperand& operand, int64_t alignment) {
    return ProductKind::Matrix{operand.format,          operand.kept,  operand.stride, alignment,
                               operand.contracted_last, operand.scales};
  };
  ProductKind kind;
  kind.a = matrix(layout.a, alignments.a), kind.b = matrix(layout.b, alignments.b);
  kind.d.format = layout.own_place ? layout.place : args.c.dtype();
  kind.d.rows = layout.a.kept;
  kind.d.stride = layout.own_place ? layout.columns : std::max(args.c.stride(0), layout.columns);
  kind.d.alignment = alignments.d;
  kind.contracted = layout.contracted;
  kind.accumulate = args.mode == WriteMode::accumulate && !layout.own_place;
  kind.bias = layout.library_bias;
  kind.device_factor = layout.device_factor;
  kind.spare_multiprocessors = args.spare_multiprocessors;
  return kind;
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

int64_t operand_bytes(const ProductKind& kind, const ProductKind::Matrix& operand) {
  const int64_t lines = operand.contracted_last ? operand.rows : kind.contracted;
  const int64_t width = operand.contracted_last ? kind.contracted : operand.rows;
  const int64_t elements = (lines - 1) * operand.stride + width;
  return operand.format == DType::e2m1x2 ? (elements + 1) / 2
                                         : elements * dtype_bytes(operand.format);
}

int64_t scale_bytes(const ProductKind& kind, const ProductKind::Matrix& operand) {
  const auto tiles = [&](int64_t group) {
    return rounded_up(operand.rows, 128) * rounded_up(pieces_of(kind.contracted, group), 4);
  };
  switch (operand.scales) {
    case LibraryScales::none:
      return 0;
    case LibraryScales::matrix:
      return 4;
    case LibraryScales::lines_128:
      return 4 * operand.rows * pieces_of(kind.contracted, 128);
    case LibraryScales::squares_128:
      return 4 * pieces_of(operand.rows, 128) * rounded_up(pieces_of(kind.contracted, 128), 4);
    case LibraryScales::lines_32:
      return tiles(32);
    case LibraryScales::lines_16:
      return tiles(kNvfp4Group);
  }
  return 0;
}

}  // namespace viaduct::cuda
