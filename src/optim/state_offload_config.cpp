#include "optim/state_offload_config.h"

namespace viaduct {

FieldGroup state_offload_fields(StateOffloadConfig& config) {
  FieldGroup group("optimizer", "");
  group.on_resume(resume::free);
  group
      .field("optimizer_cpu_offload", config.optimizer_cpu_offload,
             "Masters and optimizer states live in the second memory (section memory) and come to "
             "the device for their update, bucket by bucket, with the same bits.")
      .idle([&config] { return config.optimizer_cpu_offload && config.fraction() == 0; },
            "optimizer.optimizer_offload_fraction = 0");
  group
      .field("optimizer_offload_fraction", config.optimizer_offload_fraction,
             "The part of a rank's elements whose state is offloaded: parameters are offloaded in "
             "order while their sum stays within this part.")
      .range(0, 1)
      .idle([&config] { return !config.optimizer_cpu_offload; },
            "optimizer.optimizer_cpu_offload is off");
  group
      .field("overlap_cpu_optimizer_d2h_h2d", config.overlap_cpu_optimizer_d2h_h2d,
             "The next bucket is fetched during the update of one: two buckets are on the device. "
             "false: one bucket, and one copy after the other.")
      .idle([&config] { return config.fraction() == 0; }, "no optimizer state is offloaded");
  return group;
}

}  // namespace viaduct
