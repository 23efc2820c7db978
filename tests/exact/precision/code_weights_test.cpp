// Weights that are stored only in FP8 or FP4 (mixed_precision.fp8_param_gather, fp4_param_gather),
// as codes or in the forms of MXFP8: every step has the same bits as with weights in BF16, however
// they are sharded and gathered.

#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <set>

#include "support/rank_trainers.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"
#include "train/run_checkpoint.h"

namespace viaduct {
namespace {

using namespace test;

const Overrides kCodes{"mixed_precision.fp8_param_gather=true"};
const Overrides kDelayed{"mixed_precision=bf16_with_fp8_delayed_scaling_mixed"};
const Overrides kCurrent{"mixed_precision=bf16_mixed", "mixed_precision.fp8=hybrid"};

const Overrides kNvfp4{"mixed_precision=bf16_with_nvfp4_mixed"};
const Overrides kFp4Codes{"mixed_precision.fp4_param_gather=true"};

const Overrides kMx{"mixed_precision=bf16_with_mxfp8_mixed"};
const Overrides kThroughGradients{"mixed_precision.reuse_grad_buf_for_mxfp8_param_ag=true"};

/// What every rank saves, and the formats of its weights.
struct Saved {
  std::vector<std::map<std::string, std::string>> by_rank{4};
  std::set<DType> formats, of_experts;  // of weights; of experts' weights on all ranks
  std::set<bool> experts_in_gradients;
  bool in_gradients = false;
  std::vector<double> validation_losses;
};

Saved train(const Overrides& settings) {
  Saved saved;
  std::mutex mutex;
  with_trainers(tiny_run() +
                    Overrides{"train.train_iters=3", "train.micro_batch_size=1",
                              "model.num_layers=4", "train.global_batch_size=8"} +
                    settings,
                [&](Trainer& trainer, Communicator& world) {
                  trainer.run();
                  std::map<std::string, std::string> tensors;
                  const auto staged = stage_run(trainer.engine(), trainer.state());
                  for (const auto& entry : staged.entries)
                    tensors[entry.entry.tensor.name] += bytes_of(entry.values());
                  const std::lock_guard lock(mutex);
                  saved.by_rank[static_cast<size_t>(world.rank())] = std::move(tensors);
                  for (const ParameterBuffer& buffer : trainer.engine().store().buffers()) {
                    saved.formats.insert(buffer.formats().weight);
                    saved.in_gradients |= buffer.formats().weights_in_gradients;
                    if (!buffer.parameters().front()->experts.any()) continue;
                    saved.of_experts.insert(buffer.formats().weight);
                    saved.experts_in_gradients.insert(buffer.formats().weights_in_gradients);
                  }
                  if (world.rank() != 0) return;
                  for (const auto& [step, loss] : trainer.validations())
                    saved.validation_losses.push_back(loss);
                });
  return saved;
}

std::map<std::string, std::string> whole_bytes(const Saved& saved) {
  std::map<std::string, std::string> all;
  for (const auto& tensors : saved.by_rank)
    for (const auto& [name, bytes] : tensors) all[name] += bytes;
  return all;
}

struct Case {
  std::string name;
  Overrides settings;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

/// The same tensors and validation losses, although shards may begin elsewhere.
void expect_same_bits(const Saved& with, const Saved& without) {
  EXPECT_EQ(with.validation_losses, without.validation_losses);
  const auto expected = whole_bytes(without), ours = whole_bytes(with);
  ASSERT_EQ(ours.size(), expected.size());
  ASSERT_GT(ours.size(), 30u);
  if (without.by_rank[1].empty()) {
    for (const auto& [name, bytes] : expected) EXPECT_TRUE(ours.at(name) == bytes) << name;
    return;
  }
  // Shards begin elsewhere, but together they have the same elements.
  for (const auto& [name, bytes] : expected) {
    std::multiset<std::string> a, b;
    const std::string& other = ours.at(name);
    ASSERT_EQ(other.size(), bytes.size()) << name;
    for (size_t i = 0; i < bytes.size(); i += 4)
      a.insert(bytes.substr(i, 4)), b.insert(other.substr(i, 4));
    EXPECT_TRUE(a == b) << name;
  }
}

class CodeWeights : public testing::TestWithParam<Case> {};

TEST_P(CodeWeights, StepsHaveTheBitsOfSixteenBitWeights) {
  const Saved without = train(GetParam().settings);
  const Saved with = train(GetParam().settings + kCodes);
  EXPECT_FALSE(without.formats.contains(DType::e4m3));
  EXPECT_TRUE(with.formats.contains(DType::e4m3));
  EXPECT_FALSE(with.in_gradients);
  if (!without.of_experts.empty()) {
    EXPECT_EQ(with.of_experts, (std::set<DType>{DType::e4m3}));
  }
  expect_same_bits(with, without);
}

class Fp4Weights : public testing::TestWithParam<Case> {};

// Rows of 32 elements in shards that begin and end inside squares of 16 x 16.
TEST_P(Fp4Weights, StepsHaveTheBitsOfSixteenBitWeights) {
  const Overrides settings = kNvfp4 + GetParam().settings;
  const Saved without = train(settings);
  const Saved with = train(settings + kFp4Codes);
  EXPECT_FALSE(without.formats.contains(DType::e2m1x2));
  EXPECT_TRUE(with.formats.contains(DType::e2m1x2));
  if (!without.of_experts.empty()) {
    EXPECT_EQ(with.of_experts, (std::set<DType>{DType::e2m1x2}));
  }
  expect_same_bits(with, without);
}

class FormsAlone : public testing::TestWithParam<Case> {};

TEST_P(FormsAlone, StepsHaveTheBitsOfSixteenBitWeights) {
  // Twice the width of other tests, because scales are for 32 elements on each tensor rank.
  const Overrides settings =
      Overrides{"model.hidden_size=64", "model.ffn_hidden_size=96"} + GetParam().settings;
  const Saved without = train(settings);
  const Saved with = train(settings + kCodes + kThroughGradients);
  EXPECT_FALSE(without.in_gradients);
  EXPECT_TRUE(with.in_gradients);
  if (!without.of_experts.empty()) {
    EXPECT_EQ(with.experts_in_gradients, (std::set<bool>{true}));
  }
  EXPECT_FALSE(with.formats.contains(DType::e4m3));
  expect_same_bits(with, without);
}

/// Four experts, two on each rank of an exchange.
const Overrides kExperts{"model.family=qwen3_moe", "model.num_moe_experts=4",
                         "model.moe_router_topk=2", "model.expert_model_parallel_size=2"};

std::vector<Case> mx_cases() {
  const Overrides two = kMx + Overrides{"dist.ranks=2"}, four = kMx + Overrides{"dist.ranks=4"};
  return {
      {"one", kMx},
      {"dp2", two},
      // Evaluations read weights between steps; checks compare their copies.
      {"dp2_evaluated", two + Overrides{"validation.eval_iters=1", "validation.eval_interval=1",
                                        "train.check_weight_hash_across_dp_replicas_interval=1"}},
      {"dp2_not_overlapped",
       two + Overrides{"ddp.overlap_grad_reduce=false", "ddp.overlap_param_gather=false"}},
      {"dp2_inspected", two + Overrides{"tensor_inspect.enabled=true", "logger.log_interval=1"}},
      {"dp2_small_buckets", two + Overrides{"ddp.bucket_size=5000"}},
      {"dp2_bf16_gradients", two + Overrides{"ddp.grad_reduce_in_fp32=false"}},
      {"dp2_tp2",
       four + Overrides{"model.tensor_model_parallel_size=2", "model.ffn_hidden_size=128"}},
      {"instances", four + Overrides{"ddp.num_distributed_optimizer_instances=2",
                                     "ddp.outer_dp_sharding_strategy=optim"}},
      {"chunks", four + Overrides{"model.pipeline_model_parallel_size=2",
                                  "model.virtual_pipeline_model_parallel_size=2"}},
      {"recomputed",
       two + Overrides{"model.recompute_granularity=full", "model.recompute_method=uniform",
                       "model.recompute_num_layers=1"}},
      {"aware", two + Overrides{"optimizer.use_precision_aware_optimizer=true",
                                "optimizer.exp_avg_dtype=bf16"}},
      {"experts", four + kExperts + Overrides{"model.moe_ffn_hidden_size=64"}},
      {"sgd", two + Overrides{"optimizer.optimizer=sgd"}},
      {"muon", two + Overrides{"optimizer.optimizer=muon"}}};
}

INSTANTIATE_TEST_SUITE_P(Runs, FormsAlone, testing::ValuesIn(mx_cases()),
                         [](const auto& info) { return info.param.name; });

std::vector<Case> cases() {
  const Overrides two{"dist.ranks=2"}, four{"dist.ranks=4"};
  const Overrides chunks = four + Overrides{"model.pipeline_model_parallel_size=2",
                                            "model.virtual_pipeline_model_parallel_size=2"};
  const Overrides sharded{"ddp.data_parallel_sharding_strategy=optim_grads_params"};
  std::vector<Case> list;
  for (const auto& [recipe, settings] :
       {std::pair{std::string("delayed"), kDelayed}, {std::string("current"), kCurrent}}) {
    list.insert(
        list.end(),
        {{"one_" + recipe, settings},
         {"dp2_" + recipe, settings + two},
         {"dp2_not_overlapped_" + recipe,
          settings + two + Overrides{"ddp.overlap_grad_reduce=false", "ddp.bucket_size=5000"}},
         {"tp2_dp2_" + recipe, settings + four + Overrides{"model.tensor_model_parallel_size=2"}},
         {"sharded_" + recipe, settings + two + sharded},
         {"sharded_double_buffer_" + recipe,
          settings + two + sharded + Overrides{"ddp.fsdp_double_buffer=true"}},
         {"instances_" + recipe, settings + four +
                                     Overrides{"ddp.num_distributed_optimizer_instances=2",
                                               "ddp.outer_dp_sharding_strategy=optim"}},
         {"chunks_" + recipe,
          settings + chunks + Overrides{"optimizer.overlap_param_gather_with_optimizer_step=true"}},
         {"aware_" + recipe, settings + two +
                                 Overrides{"optimizer.use_precision_aware_optimizer=true",
                                           "optimizer.exp_avg_dtype=bf16"}},
         {"experts_" + recipe, settings + four + kExperts},
         {"experts_of_one_rank_" + recipe,
          settings + kExperts + Overrides{"model.expert_model_parallel_size=1"}},
         {"experts_sharded_" + recipe, settings + four + kExperts + sharded},
         {"experts_cut_" + recipe,
          settings + four + kExperts +
              Overrides{"model.expert_model_parallel_size=1", "model.expert_tensor_parallel_size=2",
                        "ddp.bucket_size=5000"}},
         {"experts_as_dense_" + recipe,
          settings + four + kExperts +
              Overrides{"model.expert_model_parallel_size=1", "model.tensor_model_parallel_size=2",
                        "model.sequence_parallel=true"}},
         {"experts_recomputed_" + recipe,
          settings + four + kExperts +
              Overrides{"model.recompute_granularity=selective",
                        "model.recompute_modules=[moe, core_attn]"}}});
  }
  list.push_back({"fp16_masters", kDelayed + two +
                                      Overrides{"optimizer.use_precision_aware_optimizer=true",
                                                "optimizer.main_params_dtype=fp16"}});
  list.push_back({"sgd", kCurrent + two + Overrides{"optimizer.optimizer=sgd"}});
  list.push_back({"muon", kCurrent + two + Overrides{"optimizer.optimizer=muon"}});
  list.push_back(
      {"local_amax", kCurrent + Overrides{"dist.ranks=2", "model.tensor_model_parallel_size=2",
                                          "mixed_precision.fp8_local_amax=true"}});
  return list;
}

INSTANTIATE_TEST_SUITE_P(Runs, CodeWeights, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

std::vector<Case> fp4_cases() {
  const Overrides two{"dist.ranks=2"}, three{"dist.ranks=3", "train.global_batch_size=9"},
      four{"dist.ranks=4"};
  const Overrides chunks{"model.pipeline_model_parallel_size=2",
                         "model.virtual_pipeline_model_parallel_size=2"};
  const Overrides sharded{"ddp.data_parallel_sharding_strategy=optim_grads_params"};
  const Overrides tensor{"model.tensor_model_parallel_size=2", "model.ffn_hidden_size=128"};
  return {
      {"one", {}},
      {"dp2", two},
      {"dp3", three},
      {"dp2_micro_batches_of_two", two + Overrides{"train.micro_batch_size=2"}},
      {"dp2_evaluated", two + Overrides{"validation.eval_iters=1", "validation.eval_interval=1",
                                        "train.check_weight_hash_across_dp_replicas_interval=1"}},
      {"dp2_not_overlapped",
       two + Overrides{"ddp.overlap_grad_reduce=false", "ddp.overlap_param_gather=false"}},
      {"dp4_small_buckets", four + Overrides{"ddp.bucket_size=5000"}},
      {"dp2_bf16_gradients", two + Overrides{"ddp.grad_reduce_in_fp32=false"}},
      {"dp2_tp2", four + tensor},
      {"dp2_tp2_sequence", four + tensor + Overrides{"model.sequence_parallel=true"}},
      {"dp2_pp2", four + Overrides{"model.pipeline_model_parallel_size=2"}},
      {"dp2_cp2", four + Overrides{"model.context_parallel_size=2"}},
      {"chunks_with_the_step",
       four + chunks + Overrides{"optimizer.overlap_param_gather_with_optimizer_step=true"}},
      {"sharded_gradients", two + Overrides{"ddp.data_parallel_sharding_strategy=optim_grads"}},
      {"sharded", two + sharded},
      {"sharded_double_buffer", two + sharded + Overrides{"ddp.fsdp_double_buffer=true"}},
      {"instances", four + Overrides{"ddp.num_distributed_optimizer_instances=2"}},
      {"instances_share", four + Overrides{"ddp.num_distributed_optimizer_instances=2",
                                           "ddp.outer_dp_sharding_strategy=optim"}},
      {"recomputed",
       two + Overrides{"model.recompute_granularity=full", "model.recompute_method=uniform",
                       "model.recompute_num_layers=1"}},
      {"plain_ends", two + Overrides{"mixed_precision.first_last_layers_bf16=true"}},
      {"aware", two + Overrides{"optimizer.use_precision_aware_optimizer=true",
                                "optimizer.exp_avg_dtype=bf16"}},
      {"fp16_masters", two + Overrides{"optimizer.use_precision_aware_optimizer=true",
                                       "optimizer.main_params_dtype=fp16"}},
      {"experts", four + kExperts + Overrides{"model.moe_ffn_hidden_size=48"}},
      {"experts_sharded", four + kExperts + sharded + Overrides{"model.moe_ffn_hidden_size=48"}},
      {"sgd", two + Overrides{"optimizer.optimizer=sgd"}},
      {"muon", two + Overrides{"optimizer.optimizer=muon"}}};
}

INSTANTIATE_TEST_SUITE_P(Runs, Fp4Weights, testing::ValuesIn(fp4_cases()),
                         [](const auto& info) { return info.param.name; });

TEST(CodeWeights, ASkippedUpdateLeavesThem) {
  // FP16's loss scale causes overflows at the start.
  for (const auto& [recipe, codes] : {std::pair{"fp16_with_fp8_delayed_scaling_mixed", kCodes},
                                      {"fp16_with_mxfp8_mixed", kCodes + kThroughGradients}}) {
    const Overrides run = tiny_run() + Overrides{std::string("mixed_precision=") + recipe,
                                                 "mixed_precision.initial_loss_scale=1048576",
                                                 "train.train_iters=16"};
    const RunOutcome without = train_run(run), with = train_run(run + codes);
    EXPECT_GT(without.state.skipped, 0) << recipe;
    EXPECT_GT(without.state.updates, 0) << recipe;
    EXPECT_EQ(with, without) << recipe;
  }
}

TEST(CodeWeights, ARunGoesOnWithAndWithoutThem) {
  for (const auto& [recipe, codes] :
       {std::pair{kDelayed, kCodes}, {kMx, kCodes + kThroughGradients}, {kNvfp4, kFp4Codes}}) {
    const Overrides run = tiny_run() + recipe + Overrides{"train.train_iters=6"};
    const RunOutcome whole = train_run(run);
    TemporaryFolder folder;
    const Overrides saved = run + Overrides{"checkpoint.save=" + folder.path().string()};
    train_run(saved + codes + Overrides{"train.exit_interval=2"});
    train_run(saved + Overrides{"train.exit_interval=4"});
    EXPECT_EQ(train_run(saved + codes), whole) << recipe.front();
  }
}

// An update from which FP16's loss scale steps back.
TEST(Fp4Weights, ASkippedUpdateLeavesThem) {
  const Overrides run =
      tiny_run() + Overrides{"mixed_precision=fp16_mixed", "mixed_precision.fp4=e2m1",
                             "mixed_precision.initial_loss_scale=1048576", "train.train_iters=16"};
  const RunOutcome without = train_run(run), with = train_run(run + kFp4Codes);
  EXPECT_GT(without.state.skipped, 0);
  EXPECT_GT(without.state.updates, 0);
  EXPECT_EQ(with, without);
}

// A weight has no matrix to compare its codes with; other operands have one.
TEST(WatchedCodeWeights, HaveTheBitsOfAnUnwatchedRun) {
  const Overrides watched{"tensor_inspect.enabled=true", "logger.log_interval=1"};
  const auto expected = whole_bytes(train(kDelayed + kCodes));
  EXPECT_EQ(whole_bytes(train(kDelayed + kCodes + watched)), expected);
}

}  // namespace
}  // namespace viaduct
