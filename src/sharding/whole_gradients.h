#pragma once
// Main gradients that are whole on each rank; each bucket is reduced once a step, when all of it is
// complete.

#include <optional>

#include "sharding/gradient_reduction.h"
#include "sharding/gradient_store.h"

namespace viaduct {

class WholeGradients final : public GradientStore {
 public:
  /// `kernel_gradient`: the format that kernels write.
  WholeGradients(Device& device, ParameterEntries& entries, const StoreSettings& settings,
                 DType kernel_gradient);

  void begin_step(OpContext& context) override;
  void expect() override;
  int64_t held(const ParameterEntry& entry) const override { return entry.contributions; }
  void done(const Parameter& parameter) override;
  void reduce_chunk(size_t chunk) override;
  void finish(OpContext& context) override;
  void gather() override { reduction_.gather(); }
  std::vector<double> bucket_norms() override;
  void end_program() override;
  void program_ran() override { reduction_.sent_by_graph(sent_in_program_); }

 private:
  /// Those of fp32_accumulation.
  void add_accumulations(Device& device);
  /// Rounds the entry's accumulation to its main gradient, once, before it is sent.
  static void round_accumulation(OpContext& context, ParameterEntry& entry);
  void add_bucket_norm(size_t bucket);

  ParameterEntries& entries_;
  StoreSettings settings_;
  DType kernel_gradient_;
  GradientReduction reduction_;
  std::vector<int64_t> incomplete_;  // by bucket: parameters that still expect contributions
  Tensor bucket_norms_;  // with bucket_norms: a reproducible sum of squares for each bucket
  std::optional<OpContext> context_;  // of the step
  size_t sent_in_program_ = 0;        // buckets
};

}  // namespace viaduct
