#pragma once
// Columns of a published run that stand for features of the trainer, as overrides. Shared by tables
// of throughput and of memory.

#include <string>
#include <vector>

#include "plan/score/published_run.h"

namespace viaduct {

/// Codes of before 2023: gradients are reduced after the backward, every rank has all of the
/// optimizer's state, attention holds its scores, and sequences are not shared over tensor ranks.
bool of_early_megatron(const PublishedRow& row);

bool of_torchtitan(const PublishedRow& row);

/// Ranks that share the experts: column `ep`. Where it is empty and the notes name DeepEP, which
/// exchanges tokens between such ranks, all data ranks up to 64, as in the other rows of its
/// source.
int64_t expert_ranks(const PublishedRow& row);

/// Year and month of a release of Megatron-Bridge, as 2606; 0 of other codes.
int64_t bridge_release(const PublishedRow& row);

/// What of a step is captured in graphs, in lower case. From release 26.06 on Megatron-Bridge's
/// recipes for experts in MXFP8 capture whole steps, also where a row does not say so.
std::string graphs_of(const PublishedRow& row);

/// `micro_batch`, `seq_len`, `global_batch`, `n_gpus`, `tp`, `pp`, `cp`, `vpp`, `ep`, `etp` of
/// `layers` layers; layers that do not divide into stages are given to them one by one.
void add_layout(const PublishedRow& row, int64_t layers, PublishedRun& run);
void add_precision(const PublishedRow& row, PublishedRun& run);
void add_sharding(const PublishedRow& row, PublishedRun& run);
/// Of rows whose notes say LoRA, which no column describes: those of the code's recipes.
void add_adapters(const PublishedRow& row, PublishedRun& run);
void add_recompute(const PublishedRow& row, PublishedRun& run);
/// What graphs capture, and the kernels of attention, of passes over memory and of experts.
void add_kernels(const PublishedRow& row, PublishedRun& run);
/// How tokens are sent to experts, and what runs beside communication.
void add_overlap(const PublishedRow& row, PublishedRun& run);

}  // namespace viaduct
