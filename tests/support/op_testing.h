#pragma once
// Shared by tests of ops: tables and devices to run on, random tensors of any dtype, conversion to
// FP64 for the reference, and the one tolerance rule.

#include <initializer_list>
#include <memory>
#include <vector>

#include "ops/cpu/cpu_ops.h"

namespace viaduct::test {

/// The instruction sets that this machine runs.
std::vector<CpuIsa> testable_isas();
/// Whether attention's products in `dtype` run on matrix units, which read probabilities and
/// gradients of scores in that format (ops/attention.h).
bool rounds_attention_factors(CpuIsa isa, DType dtype);
/// The dtypes that kernels support besides f64: f32, bf16, f16.
inline constexpr DType kKernelDTypes[] = {DType::f32, DType::bf16, DType::f16};

/// A cpu device with a table that has only the given families (`cpu::add_gemm`, …).
class OpMachine {
 public:
  using AddFamily = void (*)(OpTable&, CpuIsa);
  OpMachine(CpuIsa isa, int threads, std::initializer_list<AddFamily> families);
  OpContext context() { return {*device_, table_}; }
  Device& device() { return *device_; }
  const OpTable& table() const { return table_; }

 private:
  std::unique_ptr<Device> device_;
  OpTable table_;
};

/// Uniform in [−scale, scale], rounded to `dtype`, from a seed.
Tensor random_tensor(DType dtype, const Shape& shape, uint64_t seed, double scale = 1);
/// The same with `gap` unused elements after every row, which are NaN.
Tensor random_strided(DType dtype, const Shape& shape, int64_t gap, uint64_t seed,
                      double scale = 1);
/// A tensor of zeros with `gap` unused elements after every row.
Tensor strided_zeros(DType dtype, const Shape& shape, int64_t gap);
Tensor integers(DType dtype, const std::vector<int64_t>& values);

/// Element `index` in row-major order, for any strides, floating or integer.
double element(const Tensor& tensor, int64_t index);
void set_element(const Tensor& tensor, int64_t index, double value);
/// All elements in row-major order.
std::vector<double> values(const Tensor& tensor);
void set_values(const Tensor& tensor, const std::vector<double>& values);

/// A contiguous f64 copy; undefined if the tensor is.
Tensor to_f64(const Tensor& tensor);
/// A contiguous copy in another dtype; undefined if the tensor is.
Tensor converted(const Tensor& tensor, DType dtype);
/// A contiguous f64 tensor of |elements|.
Tensor magnitudes(const Tensor& tensor);

/// |actual − reference| ≤ 2·eps(output)·|reference| + 4·eps(accumulator)·√terms·Σ|terms|, per
/// element; `term_sums` is Σ|terms| (f64, shape of the result), or undefined for |reference|.
/// eps(accumulator) is that of f32, or of f64 for f64 results. Equal infinities and NaNs pass.
/// A 16-bit result may also differ by half its smallest subnormal step.
void expect_close(const Tensor& actual, const Tensor& reference, double terms,
                  const Tensor& term_sums = {});
/// Compares every bit of every element, and shapes and dtypes.
void expect_same_bits(const Tensor& actual, const Tensor& expected);

}  // namespace viaduct::test
