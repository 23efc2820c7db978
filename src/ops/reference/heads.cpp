#include "ops/reference/reference.h"
#include "ops/reference/rows.h"

namespace viaduct::reference {

void repeat_heads(const RepeatHeadsArgs& args) {
  const int64_t heads = args.out.dim(1);
  for (int64_t r = 0; r < row_count(args.out); ++r) {
    for (int64_t i = 0; i < args.out.dim(2); ++i) row(args.out, r)[i] = row(args.x, r / heads)[i];
  }
}

void sum_heads(const SumHeadsArgs& args) {
  const int64_t heads = args.x.dim(1);
  for (int64_t t = 0; t < args.out.dim(0); ++t) {
    for (int64_t i = 0; i < args.out.dim(1); ++i) {
      double sum = 0;
      for (int64_t n = 0; n < heads; ++n) sum += row(args.x, t * heads + n)[i];
      row(args.out, t)[i] = sum;
    }
  }
}

}  // namespace viaduct::reference
