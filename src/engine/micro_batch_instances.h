#pragma once
// Which micro-batches of a step a dry run leaves out because they repeat another one, and how the
// record describes them.

#include <map>
#include <set>
#include <vector>

#include "device/device.h"
#include "pipeline/action_follower.h"
#include "timeline/action_log.h"

namespace viaduct {

/// Whether micro-batches of a kind have their actions in the same order. With several chunks a
/// stage, messages of some micro-batches are posted and waited for between other computations than
/// those of others, which changes nothing unless what runs before an action matters to it.
enum class ActionOrder { any, same };

/// Micro-batches are of one *kind* if the schedule has the same actions for them, begun by the same
/// one, and the same chunks keep the same. Of each kind the first three and the last are run: the
/// first may be the first to use weights and to contribute to gradients, the last may complete
/// gradients and start their reduction; the second and third must be equal (timeline/repeats.h),
/// and the others are instances of the third.
class MicroBatchInstances final : public ActionFollower {
 public:
  /// `apart`: micro-batches and chunks that keep something else than the others
  /// (PartialRecompute::others). Device and `log` outlive it; the device has a record.
  MicroBatchInstances(Device& device, const ActionList& actions,
                      const std::set<std::pair<int64_t, int>>& apart, ActionOrder order,
                      StepActions& log);

  bool runs(int64_t micro_batch) const { return recorded_as(micro_batch) == micro_batch; }
  /// How many are run.
  int64_t count() const { return count_; }

  bool before(const Action& action) override;
  void after(const Action& action) override;

 private:
  int64_t recorded_as(int64_t micro_batch) const {
    return recorded_as_[static_cast<size_t>(micro_batch)];
  }
  int64_t stream_calls() const {
    return static_cast<int64_t>(device_.record()->stream_calls().size());
  }

  Device& device_;
  StepActions& log_;
  std::vector<int64_t> recorded_as_;  // by micro-batch
  std::vector<int64_t> numbers_;      // by action of the step: its number in its micro-batch
  int64_t count_ = 0;
};

}  // namespace viaduct
