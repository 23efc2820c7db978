#include "ops/softmax.h"

#include <cmath>
#include <limits>

#include "ops/reference/reference.h"
#include "ops/reference/rows.h"

namespace viaduct::reference {

void soft_cap(const SoftCapArgs& args) {
  for (int64_t t = 0; t < args.x.dim(0); ++t) {
    for (int64_t v = 0; v < args.x.dim(1); ++v)
      row(args.out, t)[v] = args.cap * std::tanh(row(args.x, t)[v] / args.cap);
  }
}

void soft_cap_backward(const SoftCapBackwardArgs& args) {
  for (int64_t t = 0; t < args.z.dim(0); ++t) {
    for (int64_t v = 0; v < args.z.dim(1); ++v) {
      const double u = row(args.z, t)[v] / args.cap;
      row(args.d_in, t)[v] = row(args.d_out, t)[v] * (1 - u * u);
    }
  }
}

void row_largest(const RowLargestArgs& args) {
  for (int64_t t = 0; t < args.x.dim(0); ++t) {
    double largest = -std::numeric_limits<double>::infinity();
    for (int64_t v = 0; v < args.columns; ++v) largest = std::max(largest, row(args.x, t)[v]);
    args.out.data<double>()[t] = largest;
  }
}

void row_exponential(const RowExponentialArgs& args) {
  for (int64_t t = 0; t < args.x.dim(0); ++t) {
    for (int64_t v = 0; v < args.x.dim(1); ++v) {
      const double shifted = row(args.x, t)[v] - args.shift.data<double>()[t];
      row(args.out, t)[v] = v < args.columns ? std::exp(shifted) : 0;
    }
  }
}

void row_sum(const RowSumArgs& args) {
  for (int64_t t = 0; t < args.x.dim(0); ++t) {
    double sum = 0;
    for (int64_t v = 0; v < args.columns; ++v) sum += row(args.x, t)[v];
    args.out.data<double>()[t] = sum;
  }
}

void row_divide(const RowDivideArgs& args) {
  for (int64_t t = 0; t < args.x.dim(0); ++t) {
    for (int64_t v = 0; v < args.x.dim(1); ++v)
      row(args.out, t)[v] = row(args.x, t)[v] / args.divisor.data<double>()[t];
  }
}

void row_pick(const RowPickArgs& args) {
  for (int64_t t = 0; t < args.x.dim(0); ++t) {
    const int64_t target = args.targets.data<int32_t>()[t] - args.first_column;
    const bool here = target >= 0 && target < args.columns;
    args.out.data<double>()[t] = here ? row(args.x, t)[target] : 0;
  }
}

void softmax_loss_backward(const SoftmaxLossBackwardArgs& args) {
  for (int64_t t = 0; t < args.out.dim(0); ++t) {
    const double weight = args.weight.data<float>()[t], factor = args.factor.data<double>()[0];
    const int64_t target = args.targets.data<int32_t>()[t] - args.first_column;
    for (int64_t v = 0; v < args.out.dim(1); ++v) {
      const double difference = row(args.probabilities, t)[v] - (target == v ? 1 : 0);
      row(args.out, t)[v] = v < args.columns && weight != 0 ? weight * factor * difference : 0;
    }
  }
}

}  // namespace viaduct::reference
