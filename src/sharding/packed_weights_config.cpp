#include "sharding/packed_weights_config.h"

namespace viaduct {

FieldGroup packed_weights_fields(PackedWeightsConfig& config) {
  FieldGroup group("model", "");
  group.on_resume(resume::free);
  group
      .field(
          "packed_weights", config.packed_weights,
          "Weights of matrix products are also kept as the tiles that the products read, one "
          "form for the forward and one for the data gradient, 2 + 2 bytes a parameter, made "
          "once a step; off: each product makes them. The numbers are the same. auto: on "
          "where a step has several micro-batches of at most 1024 tokens on a rank (under AMX: "
          "of any size); beside adapters where the frozen weights are whole on each rank, in BF16, "
          "and have at most 512Mi parameters, those of all data-parallel copies (tiles of "
          "frozen weights are made once a run); off where products do not read BF16 tiles.")
      .constraint(
          "true needs dist.cpu_isa avx512_bf16 or amx, and a recipe whose weights are BF16");
  return group;
}

}  // namespace viaduct
