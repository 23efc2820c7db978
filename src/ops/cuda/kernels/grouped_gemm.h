#pragma once
// Products of the experts of a rank (ops/grouped_gemm.h), all in one launch. Blocks find their
// expert by the offsets, which stay on the device.

#include <type_traits>

#include "ops/cuda/kernels/views.h"

namespace viaduct::cuda {

enum class GroupedForm : uint8_t { forward, data_gradient, weight_gradient };

/// Calls `call` with two of std::bool_constant: whether the contracted dim is the last of a, and of
/// b.
template <class Call>
void for_form(GroupedForm form, Call&& call) {
  switch (form) {
    case GroupedForm::forward:
      return call(std::true_type(), std::true_type());
    case GroupedForm::data_gradient:
      return call(std::true_type(), std::false_type());
    case GroupedForm::weight_gradient:
      return call(std::false_type(), std::false_type());
  }
}

/// The products whatever their operands are. Row r of c begins at element r · c_stride.
struct GroupedShape {
  GroupedForm form;
  Format c_format;
  bool accumulate;
  void* c;
  int64_t c_stride;
  const int32_t* offsets;  // [experts + 1]
  int64_t experts;
  int64_t rows;  // of a: those from offsets[experts] on belong to no expert
  int64_t n, k;  // of a weight
};

/// Row r of a tensor begins at element r · stride.
struct GroupedProduct : GroupedShape {
  Format format;  // of a and b
  const void *a, *b;
  int64_t a_stride, b_stride;
};
/// Sums in FP32, in the order of the contracted dim.
void grouped_gemm(const GroupedProduct& args, Stream stream);

/// Sides of the tiles of c that a block computes.
inline constexpr int64_t kGroupedTile = 64;

/// Blocks of a launch, with tiles of `down` × `across`: each expert may end with a tile that is not
/// full.
inline int64_t grouped_tiles(const GroupedShape& args, int64_t down = kGroupedTile,
                             int64_t across = kGroupedTile) {
  const auto tiles = [](int64_t size, int64_t side) { return (size + side - 1) / side; };
  if (args.form == GroupedForm::weight_gradient)
    return args.experts * tiles(args.n, down) * tiles(args.k, across);
  const int64_t columns = args.form == GroupedForm::forward ? args.n : args.k;
  return (args.rows / down + args.experts) * tiles(columns, across);
}

}  // namespace viaduct::cuda
