// The bytes of a parameter in each format of the optimizer's state, exactly, and as reported by a
// dry run.

#include <gmock/gmock.h>

#include "base/error.h"
#include "engine/dry_run.h"
#include "run/rank_device.h"
#include "support/training.h"
#include "train/trainer.h"

namespace viaduct {
namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

// Sizes are multiples of 64: only the end of the buffer is padded.
const Overrides kModel =
    tiny_run() +
    Overrides{"model.hidden_size=64", "mixed_precision=bf16_mixed", "train.train_iters=1"};
const Overrides kAware{"optimizer.use_precision_aware_optimizer=true"};

struct Row {
  std::string name;
  Overrides settings;
  double masters, gradients, moments;  // bytes of a parameter
};

const Row kRows[] = {
    {"FP32 state", {}, 4, 4, 8},
    {"remainders", kAware, 2, 4, 8},
    {"BF16 moments",
     kAware + Overrides{"optimizer.exp_avg_dtype=bf16", "optimizer.exp_avg_sq_dtype=bf16"}, 2, 4,
     4},
    {"FP16 masters and moments",
     kAware + Overrides{"optimizer.main_params_dtype=fp16", "optimizer.exp_avg_dtype=fp16",
                        "optimizer.exp_avg_sq_dtype=fp16"},
     2 + 4.0 / 64, 4, 2 * (2 + 4.0 / 64)},
    {"remainders, BF16 gradients, FP8 moments",
     kAware + Overrides{"ddp.grad_reduce_in_fp32=false", "optimizer.main_grads_dtype=bf16",
                        "optimizer.exp_avg_dtype=fp8", "optimizer.exp_avg_sq_dtype=fp8"},
     2, 2, 2 * (1 + 4.0 / 64)},
};

struct Bytes {
  int64_t weights = 0, masters = 0, gradients = 0, moments = 0;
  bool operator==(const Bytes&) const = default;
};

template <class BytesOf>
Bytes bytes_of(BytesOf&& of) {
  return {of(MemoryTag::weights), of(MemoryTag::master_weights), of(MemoryTag::main_gradients),
          of(MemoryTag::moments)};
}

Bytes held(const RunSetup& setup) {
  const RankDevice rank = make_rank_device(setup.config.dist);
  Trainer trainer(setup, *rank.device, rank.ops, {.peak_effort = PeakEffort::glance});
  return bytes_of(
      [&](MemoryTag tag) { return rank.device->memory().bytes_by_tag[static_cast<size_t>(tag)]; });
}

TEST(OptimizerMemory, IsTheTableAndTheDryRuns) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    const RunSetup setup = setup_of(kModel + row.settings);
    const DryRun dry = dry_run(setup);
    const Bytes planned = bytes_of(
        [&](MemoryTag tag) { return dry.peak.bytes_by_tag.at(std::string(memory_tag_name(tag))); });
    const auto parameters = static_cast<double>(dry.parameters);
    const auto buffer = static_cast<double>(planned.weights) / 2;  // elements, with its padding
    EXPECT_LE(buffer, parameters + 127);
    EXPECT_EQ(planned.gradients, static_cast<int64_t>(row.gradients * buffer));
    EXPECT_EQ(planned.moments, static_cast<int64_t>(row.moments * parameters));
    const double scales = row.masters - static_cast<int64_t>(row.masters);
    EXPECT_EQ(planned.masters, static_cast<int64_t>((row.masters - scales) * buffer) +
                                   static_cast<int64_t>(scales * parameters));
    EXPECT_EQ(held(setup), planned);
  }
}

// Adafactor keeps a number for each row and column of a matrix, and for each element of a vector.
TEST(OptimizerMemory, AdafactorKeepsRowsAndColumns) {
  const RunSetup setup = setup_of(kModel + Overrides{"optimizer.optimizer=adafactor"});
  const DryRun dry = dry_run(setup);
  const auto planned = dry.peak.bytes_by_tag.at(std::string(memory_tag_name(MemoryTag::moments)));
  // tiny_run: two layers of 64 features and a feed-forward of 64, a vocabulary of 64.
  const int64_t square = 64 + 64, layer = 7 * square + 2 * 64;  // q k v o gate up down, two norms
  const int64_t values = 2 * layer + 2 * square + 64;           // table, head, last norm
  EXPECT_GE(planned, 4 * values);
  EXPECT_LE(planned, 4 * values + 64);
  EXPECT_EQ(bytes_of([&](MemoryTag tag) {
              return dry.peak.bytes_by_tag.at(std::string(memory_tag_name(tag)));
            }),
            held(setup));
}

TEST(OptimizerMemory, WhatFormatsNeedIsSaid) {
  const auto refused = [](const Overrides& settings, const std::string& one,
                          const std::string& other) {
    EXPECT_THAT([&] { setup_of(kModel + settings); },
                ThrowsMessage<ConfigError>(AllOf(HasSubstr(one), HasSubstr(other))));
  };
  refused({"optimizer.exp_avg_dtype=fp8"}, "optimizer.exp_avg_dtype: fp8",
          "use_precision_aware_optimizer=true");
  refused({"optimizer.main_params_dtype=fp16"}, "optimizer.main_params_dtype: fp16",
          "use_precision_aware_optimizer=true");
  refused(kAware + Overrides{"optimizer.optimizer=lion"},
          "optimizer.use_precision_aware_optimizer: true", "optimizer=adam or muon, found lion");
  refused(kAware + Overrides{"optimizer.main_grads_dtype=bf16"}, "optimizer.main_grads_dtype: bf16",
          "ddp.grad_reduce_in_fp32=false");
  refused(kAware + Overrides{"mixed_precision=fp32", "optimizer.main_params_dtype=fp16"},
          "optimizer.main_params_dtype: fp16", "their own masters");
  refused(kAware + Overrides{"mixed_precision=fp64"},
          "optimizer.use_precision_aware_optimizer: true", "fp64");
  refused({"optimizer.optimizer=soap"}, "optimizer.optimizer", "soap");
  refused(kAware + Overrides{"optimizer.optimizer=adafactor"},
          "optimizer.use_precision_aware_optimizer: true", "found adafactor");
  refused({"optimizer.optimizer=adafactor", "mixed_precision=fp64"},
          "optimizer.optimizer: adafactor", "fp64");
  refused({"optimizer.optimizer=muon", "mixed_precision=fp64"}, "optimizer.optimizer: muon",
          "fp64");
}

}  // namespace
}  // namespace viaduct
