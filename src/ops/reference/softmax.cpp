#include "ops/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/reference/reference.h"
#include "ops/reference/rows.h"

namespace viaduct::reference {
namespace {

/// The column of a row's target; −1: it is not among the columns.
int64_t target_of(const RowTargets& targets, int64_t t, int64_t columns) {
  const int64_t column = targets.ids.data<int32_t>()[t] - targets.first_column;
  return column >= 0 && column < columns ? column : -1;
}

/// Of element v of row t.
double mapped(const MapRowsArgs& args, int64_t t, int64_t v) {
  const double x = row(args.x, t)[v];
  switch (args.map) {
    case RowMap::soft_cap:
      return args.cap * std::tanh(x / args.cap);
    case RowMap::soft_cap_backward: {
      const double u = row(args.by, t)[v] / args.cap;
      return x * (1 - u * u);
    }
    case RowMap::exponential:
      return std::exp(x - args.by.data<double>()[t]);
    case RowMap::divide:
      return x / args.by.data<double>()[t];
    case RowMap::loss_backward: {
      const double weight = args.weight.data<float>()[t], factor = args.factor.data<double>()[0];
      const bool target = target_of(args.targets, t, args.columns) == v;
      return weight != 0 ? weight * factor * (x - (target ? 1 : 0)) : 0;
    }
  }
  return 0;
}

}  // namespace

void reduce_rows(const ReduceRowsArgs& args) {
  for (int64_t t = 0; t < args.x.dim(0); ++t) {
    const double* const x = row(args.x, t);
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t v = 0; v < args.columns; ++v) largest = std::max(largest, x[v]), sum += x[v];
    double& out = args.out.data<double>()[t];
    if (args.value == RowValue::pick) {
      const int64_t target = target_of(args.targets, t, args.columns);
      out = target < 0 ? 0 : x[target];
    } else {
      out = args.value == RowValue::sum ? sum : largest;
    }
  }
}

void map_rows(const MapRowsArgs& args) {
  for (int64_t t = 0; t < args.x.dim(0); ++t) {
    for (int64_t v = 0; v < args.x.dim(1); ++v)
      row(args.out, t)[v] = v < args.columns ? mapped(args, t, v) : 0;
  }
}

}  // namespace viaduct::reference
