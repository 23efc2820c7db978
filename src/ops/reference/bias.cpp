#include "ops/bias.h"

#include "ops/reference/reference.h"
#include "ops/reference/rows.h"

namespace viaduct::reference {

void bias_add(const BiasAddArgs& args) {
  for (int64_t t = 0; t < args.out.dim(0); ++t) {
    for (int64_t n = 0; n < args.out.dim(1); ++n)
      row(args.out, t)[n] = row(args.x, t)[n] + args.bias.data<double>()[n];
  }
}

}  // namespace viaduct::reference
