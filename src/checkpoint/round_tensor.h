#pragma once
// Tensors of files in another number format, and what the rounding did to their values.

#include <string>

#include "tensor/tensor.h"

namespace viaduct {

/// What a conversion changed, summed over tensors.
struct Rounding {
  int64_t elements = 0;                         // converted
  int64_t changed = 0;                          // to another value
  int64_t vanished = 0;                         // of these, became zero
  double error_squares = 0, value_squares = 0;  // sums of (stored − value)² and value²
  double largest = 0;      // |stored − value| / |value| of changed values, zeros aside
  std::string largest_in;  // the tensor with it

  void add(const Rounding& other);
  /// For people: "12 of 64 elements were rounded, by 0.1 % over all (L2) and at most 0.2 % of one
  /// (model.x), 1 of them to zero"; "all 64 elements are exact" where nothing changed.
  std::string text() const;
};

/// Counts the values of one tensor as they are converted.
class RoundingCount {
 public:
  /// `format` names the new one in errors ("fp16").
  RoundingCount(std::string tensor, std::string format)
      : tensor_(std::move(tensor)), format_(std::move(format)) {}
  void add(double value, double stored);
  /// IoError if finite values became infinite: says how many, and the largest one.
  void finish(Rounding& total);

 private:
  std::string tensor_, format_;
  Rounding rounding_;
  int64_t overflows_ = 0;
  double largest_overflow_ = 0;
};

/// `tensor` (host memory, contiguous, floating) in `dtype`, each element rounded once to nearest
/// even; the same view if it has that dtype. Infinities and NaNs stay. IoError that names the
/// tensor if a finite element is beyond the format's largest number; ShapeError for dtypes that are
/// not floating.
Tensor rounded_tensor(const Tensor& tensor, DType dtype, const std::string& name, Rounding& total);

/// Calls `f(index, value)` for the elements of a contiguous floating host tensor, as doubles.
template <class F>
void for_each_value(const Tensor& tensor, F&& f) {
  dispatch_floating(tensor.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* values = tensor.data<T>();
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      if constexpr (std::is_same_v<T, double>) {
        f(i, values[i]);
      } else {
        f(i, static_cast<double>(static_cast<float>(values[i])));
      }
    }
  });
}

/// The values of a contiguous floating host tensor in FP32, a copy.
Tensor in_fp32(const Tensor& tensor);

}  // namespace viaduct
