#pragma once
// Weights without their own memory, beside whole ones: their 16-bit values are in the memory of
// their gradients from the first use after an update until their forms for products are made.
// (Megatron's `reuse_grad_buf_for_mxfp8_param_ag`.) So the gradients of a step stay until the next
// step begins.

#include <optional>

#include "sharding/shard_run.h"
#include "sharding/whole_weights.h"

namespace viaduct {

class StagedWeights final : public WholeWeights {
 public:
  /// `runs`: what this rank updates; outlives this. `master`: the format of masters.
  StagedWeights(const ParameterEntries& entries, const StoreSettings& settings,
                OffloadedBlocks* blocks, const std::vector<ShardRun>& runs, DType master);

  void derive(const OpContext& context, WeightForms& forms) override;
  /// ShapeError as well where its memory has become that of gradients.
  Tensor weight(const Parameter& parameter) const override;
  void require(const Parameter& parameter) override;
  /// Gradients stay until the weights that reuse their memory are used.
  void written() override { gather_.own_written(); }
  void finish() override;
  void begin_step() override;
  void begin_chunk(size_t chunk) override;
  void before_gradients(size_t chunk) override { end_staging(chunk); }
  /// These weights leave the memory of gradients before the program writes those.
  void begin_program() override;
  void end_program() override {}
  void program_ran() override {}

 private:
  /// Writes this generation's weights of the runs there, from masters, if that is not done. From
  /// here on the gradients of the last step are gone.
  void stage();
  /// Makes the forms of a chunk's weights that are not made yet; the memory then belongs to the
  /// gradients again.
  void end_staging(size_t chunk);
  /// Whether all these forms of this generation are made.
  bool formed(size_t chunk) const { return formed_generations_[chunk] == generation(); }

  const std::vector<ShardRun>& runs_;
  DType master_;
  std::optional<OpContext> context_;         // to write the weights and to make their forms
  int64_t staged_generation_ = -1;           // which is written there, or was
  std::vector<int64_t> formed_generations_;  // by chunk: whose forms are made and that is gone
};

}  // namespace viaduct
