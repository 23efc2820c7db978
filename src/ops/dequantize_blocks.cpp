#include "ops/dequantize_blocks.h"

#include "ops/checks.h"
#include "ops/make_cost.h"
#include "ops/table.h"

namespace viaduct {

void dequantize_blocks(OpContext& context, const DequantizeBlocksArgs& args) {
  constexpr std::string_view kOp = "dequantize_blocks";
  const GgufType& type = gguf_type(args.type);
  check_rank(kOp, "out", args.out, 2);
  check_floating(kOp, "out", args.out);
  check_contiguous(kOp, "out", args.out);
  VIADUCT_CHECK(ShapeError, type.quantized() && args.out.dim(1) % type.block == 0,
                "{}: rows of {} elements are no blocks of {}, which have {}", kOp, args.out.dim(1),
                type.name, type.block);
  check_shape(kOp, "blocks", args.blocks,
              {args.out.dim(0), gguf_bytes(args.type, args.out.dim(1))});
  check_dtype(kOp, "blocks", args.blocks, {DType::u8});
  check_contiguous(kOp, "blocks", args.blocks);
  dispatch(context, kOp, context.ops.dequantize_blocks, args);
}

Cost cost_of(const DequantizeBlocksArgs& args) {
  // A product and the subtraction of a minimum.
  return make_cost(DType::f32, 2 * count(args.out), {&args.blocks}, {&args.out});
}

}  // namespace viaduct
