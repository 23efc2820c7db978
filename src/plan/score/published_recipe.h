#pragma once
// What the recipes of Megatron-LM's tests say (columns that benchmarks/plan/memory_recipes.py
// adds), and what the libraries of these runs hold.

#include "hardware/cluster.h"
#include "plan/score/published_run.h"

namespace viaduct {

/// Overrides for the recipe's columns; where they are empty, Megatron-LM's defaults, which differ
/// from ours.
void add_recipe(const PublishedRow& row, PublishedRun& run);

/// Bytes that PyTorch, Transformer Engine and Megatron-LM allocate once on a rank, and keep: memory
/// that our trainer does not need.
int64_t library_bytes(const PublishedRow& row, const Gpu& gpu);

}  // namespace viaduct
