#include "checkpoint/round_tensor.h"

#include <cmath>
#include <type_traits>

#include "base/error.h"
#include "base/json_reader.h"
#include "base/units.h"
#include "tensor/round_once.h"

namespace viaduct {

void Rounding::add(const Rounding& other) {
  elements += other.elements;
  changed += other.changed;
  vanished += other.vanished;
  error_squares += other.error_squares;
  value_squares += other.value_squares;
  if (other.largest > largest) {
    largest = other.largest;
    largest_in = other.largest_in;
  }
}

std::string Rounding::text() const {
  if (changed == 0)
    return elements == 1 ? "the one element is exact"
                         : fmt::format("all {} elements are exact", elements);
  std::string text = fmt::format("{} of {} {} rounded", changed, counted(elements, "element"),
                                 changed == 1 ? "was" : "were");
  if (value_squares > 0)
    text +=
        fmt::format(", by {:.3g} % over all (L2)", 100 * std::sqrt(error_squares / value_squares));
  if (largest > 0)
    text += fmt::format(" and at most {:.3g} % of an element that stays above zero ({})",
                        100 * largest, shown_name(largest_in));
  if (vanished > 0) text += fmt::format(", {} of them to zero", vanished);
  return text;
}

void RoundingCount::add(double value, double stored) {
  ++rounding_.elements;
  if (!std::isfinite(value)) return;
  rounding_.value_squares += value * value;
  if (stored == value) return;
  ++rounding_.changed;
  rounding_.error_squares += (stored - value) * (stored - value);
  if (!std::isfinite(stored)) {
    ++overflows_;
    largest_overflow_ = std::max(largest_overflow_, std::fabs(value));
  } else if (stored == 0) {
    ++rounding_.vanished;
  } else if (const double change = value == 0 ? 0 : std::fabs((stored - value) / value);
             change > rounding_.largest) {
    rounding_.largest = change;
    rounding_.largest_in = tensor_;
  }
}

void RoundingCount::finish(Rounding& total) {
  VIADUCT_CHECK(IoError, overflows_ == 0,
                "tensor \"{}\": {} of its {} {} beyond the largest number of {} (the "
                "largest is {:.6g}); use a format with a wider range, bf16 or fp32",
                shown_name(tensor_), overflows_, counted(rounding_.elements, "element"),
                overflows_ == 1 ? "is" : "are", format_, largest_overflow_);
  total.add(rounding_);
}

Tensor rounded_tensor(const Tensor& tensor, DType dtype, const std::string& name, Rounding& total) {
  VIADUCT_CHECK(ShapeError, is_floating(tensor.dtype()) && is_floating(dtype),
                "tensor \"{}\": {} cannot be converted to {}", shown_name(name), describe(tensor),
                dtype_name(dtype));
  if (tensor.dtype() == dtype) {
    total.elements += tensor.elements();
    return tensor;
  }
  Tensor result = host_tensor(dtype, tensor.shape());
  RoundingCount count(name, std::string(dtype_name(dtype)));
  dispatch_floating(dtype, [&](auto zero) {
    using T = decltype(zero);
    T* to = result.data<T>();
    for_each_value(tensor, [&](int64_t i, double value) {
      if constexpr (std::is_same_v<T, double>) {
        to[i] = value;
      } else if constexpr (std::is_same_v<T, float>) {
        to[i] = static_cast<float>(value);
      } else {
        to[i] = static_cast<T>(rounded_to_odd(value));
      }
      if constexpr (std::is_same_v<T, double>) {
        count.add(value, to[i]);
      } else {
        count.add(value, static_cast<double>(static_cast<float>(to[i])));
      }
    });
  });
  count.finish(total);
  return result;
}

Tensor in_fp32(const Tensor& tensor) {
  const Tensor values = host_tensor(DType::f32, tensor.shape());
  for_each_value(tensor, [&](int64_t i, double value) {
    values.data<float>()[i] = static_cast<float>(value);
  });
  return values;
}

}  // namespace viaduct
