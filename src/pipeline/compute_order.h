#pragma once
// The order of a stage's computations, without messages: the part of a schedule that depends on its
// kind. Formulas: Narayanan et al. 2021 (1F1B, interleaved), Qi et al. 2023 (ZB-H1), and
// Megatron-Core's warm-up counts.

#include <vector>

#include "pipeline/schedule.h"

namespace viaduct {

/// One computation. `due` is the step boundary at which the stage that sends its input passes it
/// on, where all stages advance step by step: the step itself, or earlier where the first and the
/// last stage meet (virtual stages), which are pp − 1 steps apart, and beside stages in front,
/// which are not in step (front_order.h).
struct Compute {
  ActionKind kind = ActionKind::forward;
  int64_t micro_batch = 0;
  int chunk = 0;
  int64_t due = 0;
};

/// The computation between two exchanges of messages.
struct Step {
  std::vector<Compute> work;
  bool steady = false;  // neither warm-up nor drain
  /// A forward and a backward that alternate: both have their inputs before, and pass on their
  /// outputs after both.
  bool combined = false;
};

std::vector<Step> compute_order(const ScheduleSettings& settings, int stage);

/// The order in which every stage runs its forwards (chunk and micro-batch) under virtual stages:
/// groups of `group` micro-batches, within a group chunk after chunk.
struct ForwardNumber {
  int64_t micro_batch = 0;
  int chunk = 0;
};
std::vector<ForwardNumber> interleaved_order(int virtual_stages, int64_t micro_batches,
                                             int64_t group);

}  // namespace viaduct
