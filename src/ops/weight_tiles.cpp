#include "ops/weight_tiles.h"

#include "ops/checks.h"
#include "ops/table.h"

namespace viaduct {
namespace {

// Of every instruction set that has tiles (ops/cpu/tiles.h).
constexpr int64_t kColumns = 16, kDepth = 32;

int64_t pieces(int64_t size, int64_t piece) {
  return (size + piece - 1) / piece;
}

}  // namespace

bool reads_weight_tiles(const OpTable& ops, DType dtype) {
  return ops.pack_weight.choose != nullptr && dtype == DType::bf16;
}

Shape weight_tiles_shape(GemmForm form, const Shape& weight) {
  VIADUCT_CHECK(ShapeError, form != GemmForm::weight_gradient,
                "weight as tiles: a weight gradient has no weight among its operands");
  const bool forward = form == GemmForm::forward;
  const int64_t columns = weight.dim(forward ? 0 : 1), depth = weight.dim(forward ? 1 : 0);
  return {pieces(columns, kColumns), pieces(depth, kDepth), kColumns * kDepth};
}

Tensor weight_tiles_columns(const Tensor& tiles, int64_t begin, int64_t count) {
  if (begin % kColumns != 0) return Tensor();
  return tiles.slice(0, begin / kColumns, pieces(count, kColumns));
}

void pack_weight(OpContext& context, const PackWeightArgs& args) {
  constexpr std::string_view kOp = "pack_weight";
  check_rank(kOp, "weight", args.weight, 2);
  check_dtype(kOp, "weight", args.weight, {DType::bf16});
  check_dense_rows(kOp, "weight", args.weight);
  check_shape(kOp, "tiles", args.tiles, weight_tiles_shape(args.form, args.weight.shape()));
  check_dtype(kOp, "tiles", args.tiles, {DType::bf16});
  check_contiguous(kOp, "tiles", args.tiles);
  dispatch(context, kOp, context.ops.pack_weight, args);
}

}  // namespace viaduct
