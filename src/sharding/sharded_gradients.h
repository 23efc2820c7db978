#pragma once
// Main gradients of which a rank has shards: those of a unit (a bucket) are whole from the first
// contribution of a backward to its last one, and then reduced into the shards.

#include <optional>

#include "sharding/gradient_store.h"
#include "sharding/gradient_units.h"

namespace viaduct {

class ShardedGradients final : public GradientStore {
 public:
  ShardedGradients(ParameterEntries& entries, const StoreSettings& settings,
                   OffloadedBlocks* blocks);

  void begin_step(OpContext& context) override;
  void open(const Parameter& parameter) override;
  int64_t held(const ParameterEntry& entry) const override { return in_unit_[place(entry)]; }
  void done(const Parameter& parameter) override;
  void finish(OpContext& context) override;
  void gather() override;
  void end_program() override;
  void program_ran() override { units_.summed_by_graph(summed_in_program_); }

 private:
  /// The entry's place in `in_unit_`.
  size_t place(const ParameterEntry& entry) const {
    return first_of_buffer_[entry.buffer] + entry.index;
  }
  /// Makes the entries' gradients views of the unit's flat tensor `whole`, undefined if that is.
  void view(size_t unit, const Tensor& whole);
  /// Whether all parameters had the same number of backwards since the unit was allocated.
  bool complete(size_t unit) const;
  void send(size_t unit);
  /// Sends the units that wait for contributions, which count as zero.
  void send_open(OpContext& context);

  ParameterEntries& entries_;
  GradientUnits units_;
  std::vector<size_t> first_of_buffer_;  // the place of a buffer's first parameter
  std::vector<int64_t> in_unit_;         // by parameter: contributions since its unit was allocated
  std::optional<OpContext> context_;     // of the step
  std::vector<bool> summed_in_program_;  // by unit
};

}  // namespace viaduct
