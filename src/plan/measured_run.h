#pragma once
// A dry run of one micro-batch and its seconds, for lower bounds: what other micro-batches may not
// need, or may hide, does not count.

#include "device/memory_tag.h"
#include "engine/dry_run.h"
#include "plan/layout_setup.h"

namespace viaduct {

struct MeasuredRun {
  DryRun run;                    // of rank 0
  double batch_seconds = 0;      // from the micro-batch's first work to its last
  double op_seconds = 0;         // of the micro-batch's ops alone
  double embedding_seconds = 0;  // of these, of the ops of the embedding
  double encoder_seconds = 0;    // and of an encoder, or of a vision tower and its projector
  double update_seconds = 0;     // of the optimizer's ops
};

/// Without the host, which may run ahead of the device, and without the communication of data ranks
/// unless `with_data_ranks`, nor that of experts' ranks if another micro-batch may hide it
/// (`hides_exchange`). `setup` is a run of one micro-batch.
/// DeadlineError as of `dry_run`.
MeasuredRun measure_run(const RunSetup& setup, const PlanRequest& request, bool hides_exchange,
                        bool with_data_ranks = false, const Deadline& deadline = {});

/// Bytes of a tag at the peak of a dry run.
double peak_bytes_of(const DryRun& run, MemoryTag tag);

}  // namespace viaduct
