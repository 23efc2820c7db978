#pragma once
// Whole steps of a small model on ranks that are threads, in any layout. A test changes the program
// (the actions of the schedule, and the policy of saved values) and compares the results bit by bit
// with those of the unchanged program.

#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "device/second_memory.h"
#include "engine/engine.h"
#include "pipeline/validate_schedule.h"

namespace viaduct::test {

struct ProgramLayout {
  std::string name;
  int tp = 1, cp = 1, dp = 1, pp = 1;
  bool sequence_parallel = false;
  int virtual_stages = 1;
  ScheduleKind kind = ScheduleKind::one_f_one_b;
};

inline void PrintTo(const ProgramLayout& layout, std::ostream* os) {
  *os << layout.name;
}

struct ProgramRun {
  ModelConfig model;
  std::string recipe = "bf16_mixed";
  ProgramLayout layout;
  int64_t micro_batches = 8;  // of one data rank
  SavedPolicy policy = {};
  DdpConfig ddp = {};
  bool packed_weights = false;
  /// A rank's second memory, and its device for a pool of one thread; none: no second memory, and
  /// the cpu device.
  std::function<std::unique_ptr<SecondMemory>(int rank)> second_memory = {};
  std::function<std::unique_ptr<Device>(int threads)> device = {};
  /// The number of micro-batches whose segments run in turn; a schedule with this many times fewer
  /// micro-batches is expanded.
  int in_turn = 1;
  /// Each segment is an action of its own. Always the case with in_turn > 1.
  bool by_segment = false;
};

struct ProgramOutcome {
  double loss = 0, grad_norm = 0;
  /// Main gradients and weights after each step's update, by rank and path.
  std::vector<std::map<std::string, std::vector<double>>> values;
  int64_t peak_bytes = 0;         // of the second step, over all ranks
  std::vector<StageHolds> holds;  // of the stages, as validate_schedule counts them
};

/// Runs two steps. Fails the test if validate_schedule refuses the actions.
ProgramOutcome run_program(const ProgramRun& run);

/// Splits a stage's actions into one for each segment, each for `in_turn` micro-batches in turn:
/// micro-batch i becomes those from i · in_turn on. `segments`: the number of segments of each
/// chunk of the stage.
ActionList widened(const ActionList& actions, const std::vector<int>& segments, int in_turn);

/// Fails the test unless both have the same bits.
void expect_same_bits(const ProgramOutcome& a, const ProgramOutcome& b);

}  // namespace viaduct::test
