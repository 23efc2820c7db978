#include "ops/nf4.h"

#include "ops/checks.h"
#include "ops/make_cost.h"
#include "ops/table.h"
#include "tensor/nf4.h"

namespace viaduct {
namespace {

int64_t parts_of(int64_t elements, int64_t each) {
  return (elements + each - 1) / each;
}

void check_vector(std::string_view op, std::string_view name, const Tensor& tensor, DType dtype,
                  int64_t size) {
  check_shape(op, name, tensor, {size});
  check_dtype(op, name, tensor, {dtype});
  check_contiguous(op, name, tensor);
}

}  // namespace

void quantize_nf4(OpContext& context, const QuantizeNf4Args& args) {
  constexpr std::string_view kOp = "quantize_nf4";
  check_rank(kOp, "values", args.values, 1);
  check_floating(kOp, "values", args.values);
  check_contiguous(kOp, "values", args.values);
  const int64_t elements = args.values.dim(0);
  check_vector(kOp, "codes", args.codes, DType::u8, parts_of(elements, 2));
  check_vector(kOp, "absmax", args.absmax, DType::f32, parts_of(elements, kNf4Block));
  dispatch(context, kOp, context.ops.quantize_nf4, args);
}

void quantize_absmax(OpContext& context, const QuantizeAbsmaxArgs& args) {
  constexpr std::string_view kOp = "quantize_absmax";
  check_rank(kOp, "absmax", args.absmax, 1);
  const int64_t blocks = args.absmax.dim(0);
  check_vector(kOp, "absmax", args.absmax, DType::f32, blocks);
  check_vector(kOp, "offset", args.offset, DType::f32, 1);
  check_vector(kOp, "codes", args.codes, DType::u8, blocks);
  check_vector(kOp, "scales", args.scales, DType::f32, parts_of(blocks, kNf4Group));
  dispatch(context, kOp, context.ops.quantize_absmax, args);
}

void dequantize_nf4(OpContext& context, const DequantizeNf4Args& args) {
  constexpr std::string_view kOp = "dequantize_nf4";
  check_rank(kOp, "out", args.out, 1);
  check_floating(kOp, "out", args.out);
  check_contiguous(kOp, "out", args.out);
  const int64_t elements = args.out.dim(0), blocks = parts_of(elements, kNf4Block);
  check_shape(kOp, "codes", args.codes, {parts_of(elements, 2)});
  check_dtype(kOp, "codes", args.codes, {DType::u8, DType::e2m1x2});
  check_contiguous(kOp, "codes", args.codes);
  check_vector(kOp, "absmax_codes", args.absmax_codes, DType::u8, blocks);
  check_vector(kOp, "offset", args.offset, DType::f32, 1);
  check_rank(kOp, "scales", args.scales, 1);
  check_dtype(kOp, "scales", args.scales, {DType::f32});
  check_contiguous(kOp, "scales", args.scales);
  const Nf4Blocks& of = args.blocks;
  const int64_t last =
      blocks == 0 ? 0 : of.first + (blocks - 1) / of.run * of.stride + (blocks - 1) % of.run;
  VIADUCT_CHECK(ShapeError,
                of.first >= 0 && of.run > 0 && of.stride >= of.run &&
                    (blocks == 0 || last / kNf4Group < args.scales.dim(0)),
                "{}: blocks {} to {} in runs of {}, {} apart, are not those of a matrix with {} "
                "scales, one for each {} blocks",
                kOp, of.first, last, of.run, of.stride, args.scales.dim(0), kNf4Group);
  dispatch(context, kOp, context.ops.dequantize_nf4, args);
}

Cost cost_of(const QuantizeNf4Args& args) {
  // A magnitude, a product and the comparisons with all midpoints.
  return make_cost(DType::f32, (2 + 15) * count(args.values), {&args.values},
                   {&args.codes, &args.absmax});
}

Cost cost_of(const QuantizeAbsmaxArgs& args) {
  return make_cost(DType::f32, 4 * count(args.absmax), {&args.absmax},
                   {&args.offset, &args.codes, &args.scales});
}

Cost cost_of(const DequantizeNf4Args& args) {
  return make_cost(DType::f32, count(args.out),
                   {&args.codes, &args.absmax_codes, &args.scales, &args.offset}, {&args.out});
}

}  // namespace viaduct
