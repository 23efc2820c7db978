#pragma once
// A training step of one rank on the sim device: the same engine and the same calls, nothing
// computed and nothing sent. What it records is what a real step allocates, costs and communicates.

#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "comm/mesh.h"
#include "device/memory_plan.h"
#include "device/slot_memory.h"
#include "run/setup.h"
#include "timeline/record.h"

namespace viaduct {

class Engine;

/// What a rank does in one kind of group in a step.
struct GroupTraffic {
  std::string group;  // "tp", "dp_cp.inner" …
  Collective operation = Collective::barrier;
  int ranks = 1;  // of the group
  int64_t count = 0;
  int64_t bytes = 0;       // of the larger operands
  int64_t wire_bytes = 0;  // that the rank hands to a network
};

/// What one kernel does in a step.
struct KernelUse {
  std::string op, kernel;
  int64_t calls = 0, launches = 0;
  int64_t workspace_bytes = 0;  // of the call that needs the most
  Cost cost;
};

/// A half-open range of positions of a record.
struct SequenceWindow {
  int64_t begin = 0, end = 0;
};

struct DryRun {
  GlobalRank rank;
  /// Elements of the logical tensors that the rank has boxes of, by Hugging Face name.
  std::map<std::string, int64_t> tensors;
  int64_t parameters = 0;          // their sum: true count, padding not counted
  int64_t trained_parameters = 0;  // those of them that are trained
  StepRecord::Peak peak;    // bytes by owner at the fullest moment of a step, one that measures
                            // operands (tensor_inspect) included
  int64_t bytes_after = 0;  // still held when the step has ended
  Cost cost;                // of all ops of one step
  int64_t launches = 0;
  std::vector<KernelUse> kernels;  // of one step, by op and kernel
  /// Of a run on cuda: the calls of the GPU's libraries (StepRecord::library_calls), each once.
  std::set<std::string> library_calls;
  int64_t host_reads = 0;
  std::vector<GroupTraffic> traffic;  // of one step, by group and operation
  OffloadCounts offload;              // of one step, to and from the second memory
  /// In host memory, beside the device's: what an asynchronous save copies of the rank's weights
  /// and states; 0 where saves are not asynchronous.
  int64_t save_copy_bytes = 0;
  double model_flops = 0;  // by the project's convention, of one step of all ranks
  /// Where in the record each sequence is, by MemorySequence; of the steps, the second.
  std::array<SequenceWindow, kMemorySequences> windows;
  /// Micro-batches of the step that were not run, because others do the same; sums and the record
  /// include them.
  int64_t instances = 0;
};

/// What a dry run leaves out, and when it is given up.
struct DryRunLimits {
  Deadline deadline = {};
  /// The first step has as few micro-batches as the schedule allows. The second one does the same
  /// afterwards, at other positions of the record. Steps that are captured as a graph, and those of
  /// shared documents, are not shortened.
  bool short_first_step = false;
};

/// The second step (global batch) of `rank` in the run that `setup` describes, which is like all
/// later ones; its record replaces `record`, if given (with shapes if `record` is set so). Any
/// number of ranks: the others are simulated. `with_evaluation`: adds one evaluated micro-batch
/// after them. `in_full`: all micro-batches are run, which changes only `DryRun::instances` and the
/// time that it takes. DeadlineError as soon as the deadline has passed.
DryRun dry_run(const RunSetup& setup, GlobalRank rank = {0}, StepRecord* record = nullptr,
               bool with_evaluation = false, bool in_full = false, const DryRunLimits& limits = {});

/// Runs the micro-batches of a step on rows that are one document each; their content does not
/// matter. Call it between the engine's `begin_step` and `finish_step`. `count`: of the
/// micro-batches where documents are not shared; none: those of the run.
void run_blank_batches(const RunSetup& setup, Engine& engine, std::optional<int64_t> count = {});

/// The first rank of each pipeline stage: ranks of one stage hold the same amount. DeadlineError as
/// of `dry_run`.
std::vector<DryRun> dry_run_stages(const RunSetup& setup, const Deadline& deadline = {});

/// The model's parameters: each tensor once, however many stages have it.
int64_t model_parameters(const std::vector<DryRun>& stages);

}  // namespace viaduct
