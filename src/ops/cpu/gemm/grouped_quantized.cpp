#include "ops/cpu/gemm/grouped_quantized.h"

#include "ops/cpu/gemm/operand_room.h"
#include "tensor/hadamard.h"

namespace viaduct::cpu {
namespace {

/// The rows that an operand of `rows` rows has in its form.
int64_t completed(const OperandForm& form, int64_t rows) {
  return form.rotated ? (rows + kRotated - 1) / kRotated * kRotated : rows;
}

/// The operands of an expert with `rows` rows; the tokens of the rows of a, if it is rounded by
/// them.
struct Placed {
  GemmArgs product;
  Tensor tokens;
  int64_t bytes = 0;
};

Placed place(const GroupedGemmArgs& args, int64_t rows, std::byte* memory) {
  const GemmForms forms = expert_forms(args);
  const bool gradient = args.form == GemmForm::weight_gradient;
  const int64_t experts = args.offsets.dim(0) - 1;
  const int64_t b_rows = gradient ? completed(forms.b, rows) : args.b.dim(0) / experts;
  const bool b_there = !args.b.form().plain();
  const DType dtype = args.a.dtype();
  OperandRoom room(memory);
  Placed placed;
  placed.product.form = args.form;
  placed.product.mode = args.mode;
  placed.product.quantization = args.quantization;
  placed.product.a = room.operand(forms.a, dtype, {completed(forms.a, rows), args.a.dim(1)});
  placed.product.b =
      b_there ? args.b.member(0) : room.operand(forms.b, dtype, {b_rows, args.b.dim(1)});
  placed.product.c =
      gradient ? args.c.slice(0, 0, args.c.dim(0) / experts) : args.c.slice(0, 0, rows);
  if (args.rounding.defined()) placed.tokens = room.tensor(DType::i64, {completed(forms.a, rows)});
  placed.bytes = room.used();
  return placed;
}

}  // namespace

bool is_quantized_product(const GroupedGemmArgs& args) {
  return !expert_forms(args).a.plain();
}

GemmArgs placed_product(const GroupedGemmArgs& args, int64_t rows, std::byte* memory) {
  return place(args, rows, memory).product;
}

int64_t placed_bytes(const GroupedGemmArgs& args, int64_t rows) {
  return place(args, rows, nullptr).bytes;
}

GemmArgs make_product(ThreadPool& pool, const GroupedGemmArgs& args, int64_t index, int64_t begin,
                      int64_t end, std::byte* memory, CpuIsa isa) {
  const Placed placed = place(args, end - begin, memory);
  GemmArgs product = placed.product;
  const GemmArgs matrices = product_of_expert(args, index, begin, end);
  product.c = matrices.c;
  const auto amax = [&](const Tensor& of_experts) {
    return of_experts ? of_experts.slice(0, index, 1) : Tensor();
  };
  const StochasticRounding rounding =
      with_tokens_of_rows(rounding_of_expert(args, index), placed.tokens);
  make_operand(pool, {matrices.a.tensor(), product.a, amax(args.a_amax), rounding}, isa);
  if (matrices.b.form().plain()) {
    make_operand(pool, {matrices.b.tensor(), product.b, amax(args.b_amax)}, isa);
  } else {
    product.b = matrices.b;
  }
  return product;
}

}  // namespace viaduct::cpu
