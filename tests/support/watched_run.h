#pragma once
// Runs whose quantized operands are measured (section `tensor_inspect`).

#include "base/json.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct::test {

inline const char* const kWatchedRecipes[] = {
    "bf16_with_fp8_current_scaling_mixed", "bf16_with_fp8_delayed_scaling_mixed",
    "bf16_with_fp8_subchannel_scaling_mixed", "bf16_with_mxfp8_mixed", "bf16_with_nvfp4_mixed"};

/// One step of a mixture of experts with shared experts.
inline Overrides watched_run(const std::string& recipe) {
  return tiny_run("qwen2_moe") +
         Overrides{"mixed_precision=" + recipe,    "mixed_precision.first_last_layers_bf16=false",
                   "model.num_moe_experts=4",      "model.moe_router_topk=2",
                   "model.moe_ffn_hidden_size=32", "model.moe_shared_expert_intermediate_size=32",
                   "train.train_iters=1",          "tensor_inspect.enabled=true",
                   "dist.threads_per_rank=1"};
}

/// The figures in the last line of metrics.jsonl.
inline nlohmann::json measured(const Overrides& overrides) {
  const TemporaryFolder folder;
  const RunSetup setup =
      setup_of(overrides + Overrides{"checkpoint.save=" + folder.path().string()});
  run_ranks(setup.config.dist, {}, [&](std::shared_ptr<Communicator> world) {
    const RankDevice rank = make_rank_device(setup.config.dist);
    Trainer trainer(setup, *rank.device, rank.ops, {.peak_effort = PeakEffort::glance}, world);
    trainer.run();
  });
  return nlohmann::json::parse(last_line(folder / "metrics.jsonl")).at("quantization");
}

}  // namespace viaduct::test
