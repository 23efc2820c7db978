#include "model/initialize.h"

#include "base/hash.h"
#include "ops/elementwise.h"

namespace viaduct {

void initialize_parameters(OpContext& context, ParameterStore& store, uint64_t seed) {
  for (const Parameter* parameter : store.parameters()) {
    const Tensor& master = store.master(*parameter);
    fill(context, {master, parameter->init.kind == InitKind::constant ? parameter->init.value
                                                                      : 0});  // padding stays 0
    if (parameter->init.kind == InitKind::constant) continue;
    for (const Part& part : parameter->parts) {
      RandomNormalArgs args;
      args.out = master.slice(0, part.storage_row, part.rows());
      args.standard_deviation = parameter->init.standard_deviation;
      args.key = {seed, hash64(part.name)};
      args.first_row = part.box.begin[0];
      args.first_column = part.box.begin[1];
      args.row_elements = part.logical_shape[1];
      args.transposed = part.transposed;
      random_normal(context, args);
    }
  }
  store.publish_masters(context);
}

}  // namespace viaduct
