// Choices for products on a GPU, and for the sums and additions of biases.

#include "ops/cuda/cuda_entry.h"

namespace viaduct::cuda {
namespace {

// cuBLASLt's choice among its kernels depends on it: the same for all products.
constexpr int64_t kProductWorkspace = int64_t{32} << 20;

std::string_view product_kernel(DType dtype) {
  if (dtype == DType::bf16) return "cublaslt_bf16";
  return dtype == DType::f16 ? "cublaslt_f16" : "cublaslt_f32";
}

Choice choose_gemm(const GemmArgs& args, const Traits& traits) {
  const DType dtype = args.a.dtype();
  Choice choice = choose_kernel("gemm", product_kernel(dtype), dtype, args, traits);
  use_matrix_units(choice.cost, dtype);
  choice.workspace_bytes = kProductWorkspace;
  const auto read_again = [&](int64_t bytes) {
    ++choice.launches;
    choice.cost.bytes_read += bytes;
  };
  // The library adds a bias only in the dtype of c; for another dtype a separate kernel adds it.
  if (args.bias && args.bias.dtype() != args.c.dtype()) {
    read_again(args.c.bytes());
    choice.cost.bytes_written += args.c.bytes();
  }
  const GemmEpilogue& epilogue = args.epilogue;
  if (!epilogue.any()) return choice;
  choice.cost += epilogue_cost(args);
  if (epilogue.raised) {
    // The product cannot go into c, which may be the input of the activation: [M, K].
    const int64_t product = args.a.dim(0) * args.b.dim(1) * dtype_bytes(args.c.dtype());
    read_again(product);
    choice.cost.bytes_written += product;
    choice.workspace_bytes += product;
  } else {
    read_again(args.c.bytes());
    if (epilogue.residual) choice.cost.bytes_written += args.c.bytes();
  }
  return choice;
}

Choice choose_column_sum(const ColumnSumArgs& args, const Traits& traits) {
  Choice choice = choose_kernel("column_sum", "row_parts", args.x.dtype(), args, traits);
  choice.workspace_bytes = parts_of(args.x.dim(0)) * args.x.dim(1) * dtype_bytes(DType::f32);
  choice.launches = 2;
  return choice;
}

Choice choose_bias_add(const BiasAddArgs& args, const Traits& traits) {
  return choose_kernel("bias_add", "rows", args.out.dtype(), args, traits);
}

}  // namespace

void add_gemm(OpTable& table) {
  add_entry(table.gemm, choose_gemm);
  add_entry(table.column_sum, choose_column_sum);
  add_entry(table.bias_add, choose_bias_add);
}

}  // namespace viaduct::cuda
