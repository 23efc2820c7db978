// A run saved in one layout resumes in another: masters and moments have the same bits, the next
// step is the same up to rounding, Hugging Face folders are the same; in the same layout it is the
// same run. A checkpoint that `convert` cut for another layout loads there with the same result.

#include <gtest/gtest.h>

#include <ostream>

#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/convert.h"
#include "checkpoint/safetensors_reader.h"
#include "checkpoint/safetensors_writer.h"
#include "support/checkpoint_tensors.h"
#include "support/layout_run.h"
#include "support/rank_trainers.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"
#include "support/training.h"
#include "train/checkpoint_shards.h"
#include "train/trainer.h"

namespace viaduct {
namespace {

using test::bytes_of;
using test::held_tensors;
using test::layout;
using test::LayoutCase;
using test::metric;
using test::Overrides;
using test::saved_tensors;
using test::setup_of;
using test::TemporaryFolder;
using test::tiny_run;
using test::with_trainers;
using test::operator+;

/// Settings of a run, beside the layout, that determine its shards: rows that shards cut anywhere.
Overrides run_sizes() {
  return {"train.global_batch_size=4", "train.micro_batch_size=1", "ddp.bucket_size=3000"};
}

Overrides run_of(const std::string& family, const LayoutCase& layout) {
  // A vocabulary that tensor ranks do not divide.
  return tiny_run(family) + layout.overrides + run_sizes() +
         Overrides{"train.train_iters=3", "model.vocab_size=61"};
}

Overrides from(const std::filesystem::path& load, const TemporaryFolder& save) {
  return {"checkpoint.load=" + load.string(), "checkpoint.save=" + save.path().string()};
}

void save_two_steps(const Overrides& run, const TemporaryFolder& folder) {
  with_trainers(
      run + Overrides{"checkpoint.save=" + folder.path().string(), "train.exit_interval=2"},
      [](Trainer& trainer, Communicator&) { trainer.run(); });
}

struct Pair {
  std::string name, family;
  LayoutCase from, to;
};

void PrintTo(const Pair& pair, std::ostream* os) {
  *os << pair.name;
}

class CheckpointLayouts : public testing::TestWithParam<Pair> {};

TEST_P(CheckpointLayouts, ARunGoesOnInAnother) {
  const auto& [name, family, one, other] = GetParam();
  TemporaryFolder saved, exported, same, changed;
  save_two_steps(run_of(family, one), saved);
  const auto stored = saved_tensors(saved.path());
  ASSERT_GT(stored.size(), 30u);

  convert_model({.from = saved.path(), .to = exported / "model"});
  const SafetensorsFolder hugging_face(exported / "model");
  for (const TensorInfo& info : hugging_face.tensors())
    EXPECT_TRUE(bytes_of(hugging_face.tensor(info.name)) == stored.at(info.name)) << info.name;
  EXPECT_EQ(3 * hugging_face.tensors().size(), stored.size());

  with_trainers(run_of(family, one) + from(saved.path(), same),
                [](Trainer& trainer, Communicator&) { trainer.run(); });
  with_trainers(run_of(family, other) + from(saved.path(), changed),
                [&](Trainer& trainer, Communicator& world) {
                  EXPECT_EQ(trainer.state().step, 2);
                  const bool leads = world.rank() == 0;
                  const auto held = held_tensors(trainer.engine(), world);
                  if (leads) {
                    EXPECT_EQ(held.size(), stored.size());
                    for (const auto& [tensor, bytes] : stored)
                      EXPECT_TRUE(held.at(tensor) == bytes) << tensor;
                  }
                  trainer.run();
                });
  const auto expected = metric(same / "metrics.jsonl", "loss"),
             losses = metric(changed / "metrics.jsonl", "loss"),
             expected_norms = metric(same / "metrics.jsonl", "grad_norm"),
             norms = metric(changed / "metrics.jsonl", "grad_norm");
  ASSERT_EQ(expected.size(), 1u);
  ASSERT_EQ(losses.size(), 1u);
  EXPECT_NEAR(losses[0], expected[0], 2e-5 * expected[0]);
  EXPECT_NEAR(norms.at(0), expected_norms.at(0), 2e-5 * expected_norms.at(0));
}

std::vector<Pair> pairs() {
  const LayoutCase one = layout(1, 1, 1, 1), data = layout(1, 1, 1, 2), tensor = layout(2, 1, 1, 1),
                   stages = layout(1, 1, 2, 1), both = layout(2, 1, 2, 1),
                   context = layout(1, 2, 1, 1), wide = layout(1, 1, 1, 4),
                   instances = layout(1, 1, 1, 4, {"ddp.num_distributed_optimizer_instances=2"}),
                   shared = layout(1, 1, 1, 4,
                                   {"ddp.num_distributed_optimizer_instances=2",
                                    "ddp.outer_dp_sharding_strategy=optim"},
                                   "shared_state"),
                   plain = layout(2, 1, 1, 2, {"ddp.use_distributed_optimizer=false"});
  const auto sharded = [](const char* strategy, int pp) {
    return layout(1, 1, pp, 2, {std::string("ddp.data_parallel_sharding_strategy=") + strategy},
                  strategy);
  };
  // Two blocks in four virtual stages: the embedding and the loss are virtual stages of their own.
  const LayoutCase chunks =
      layout(1, 1, 2, 1, {"model.pipeline_model_parallel_layout=E|t|t|L"}, "virtual");
  return {
      {"dp2_to_1", "llama", data, one},
      {"virtual_stages_to_tp2", "llama", chunks, tensor},
      {"dp2_to_virtual_stages", "llama", data, chunks},
      // GPT-2 ties its head: the first and the last stage have the table.
      {"tied_pp2_to_dp2", "gpt2", stages, data},
      {"tied_pp2_tp2_to_virtual_stages", "gpt2", both, chunks},
      {"one_to_tp2", "llama", one, tensor},
      {"tp2_to_dp2", "llama", tensor, data},
      {"pp2_to_tp2", "llama", stages, tensor},
      {"tp2_pp2_to_dp4", "llama", both, wide},
      {"cp2_to_dp4_instances2", "llama", context, instances},
      {"dp2_to_sharded_gradients", "llama", data, sharded("optim_grads", 1)},
      {"sharded_gradients_to_replicas", "llama", sharded("optim_grads", 1), sharded("no_shard", 1)},
      {"replicas_to_sharded_weights", "llama", sharded("no_shard", 1),
       sharded("optim_grads_params", 1)},
      {"tied_sharded_weights_to_dp2", "gpt2", sharded("optim_grads_params", 2), data},
      {"sharded_weights_to_sharded_gradients", "llama", sharded("optim_grads_params", 1),
       sharded("optim_grads", 1)},
      {"instances2_to_tp2_dp2_plain", "qwen2", instances, plain},
      {"instances2_to_shared_state", "llama", instances, shared},
      {"shared_state_to_tp2_dp2_plain", "llama", shared, plain},
      {"transposed_tp2_to_dp2", "gpt2", tensor, data},
      {"transposed_dp4_to_tp2_pp2", "gpt2", wide, both}};
}

INSTANTIATE_TEST_SUITE_P(Pairs, CheckpointLayouts, testing::ValuesIn(pairs()),
                         [](const auto& info) { return info.param.name; });

// Means of rows and columns are complete on every rank that updates a part of a matrix, and saved
// once.
TEST(AdafactorLayouts, MeansMoveBetweenLayouts) {
  const Overrides adafactor{"optimizer.optimizer=adafactor"};
  const LayoutCase tensor = layout(2, 1, 1, 2), stages = layout(1, 1, 2, 2),
                   copies = layout(1, 1, 1, 4, {"ddp.num_distributed_optimizer_instances=2"}),
                   shared = layout(1, 1, 1, 4,
                                   {"ddp.num_distributed_optimizer_instances=2",
                                    "ddp.outer_dp_sharding_strategy=optim"}),
                   weights = layout(1, 1, 1, 2,
                                    {"ddp.data_parallel_sharding_strategy=optim_grads_params"}),
                   plain = layout(2, 1, 1, 2, {"ddp.use_distributed_optimizer=false"});
  for (const auto& [family, one, other] : {std::tuple{"llama", tensor, stages},
                                           {"gpt2", stages, tensor},
                                           {"llama", copies, plain},
                                           {"gpt2", plain, copies},
                                           {"llama", shared, weights},
                                           {"gpt2", weights, shared}}) {
    SCOPED_TRACE(one.name + " to " + other.name);
    const TemporaryFolder saved, changed;
    save_two_steps(run_of(family, one) + adafactor, saved);
    const auto stored = saved_tensors(saved.path());
    with_trainers(run_of(family, other) + adafactor + from(saved.path(), changed),
                  [&](Trainer& trainer, Communicator&) {
                    size_t means = 0;
                    for (const OptimizerState& state : trainer.engine().optimizer()->states()) {
                      for (const SharedState& mean : state.shared) {
                        const std::string& name = mean.description->parts.front().name;
                        EXPECT_TRUE(bytes_of(mean.values) == stored.at(state.prefix + name))
                            << name;
                        ++means;
                      }
                    }
                    EXPECT_GT(means, 8u);
                    trainer.run();
                  });
    EXPECT_EQ(metric(changed / "metrics.jsonl", "loss").size(), 1u);
  }
}

/// Bytes by name.
std::map<std::string, std::string> bytes_of_all(const std::map<std::string, Tensor>& tensors) {
  std::map<std::string, std::string> bytes;
  for (const auto& [name, tensor] : tensors) bytes[name] = bytes_of(tensor);
  return bytes;
}

void expect_equal(const std::map<std::string, std::string>& actual,
                  const std::map<std::string, std::string>& expected) {
  EXPECT_EQ(actual.size(), expected.size());
  for (const auto& [name, bytes] : expected) {
    const auto found = actual.find(name);
    EXPECT_TRUE(found != actual.end() && found->second == bytes) << name;
  }
}

class ConvertedShards : public testing::TestWithParam<Pair> {};

// The shards that `convert` cuts for another layout: after loading them, ranks hold the saved
// masters and moments, compute the same logits and gradients as from the checkpoint itself, and
// take the same next steps, bit by bit.
TEST_P(ConvertedShards, GoOnInTheLayoutThatTheyWereCutFor) {
  const auto& [name, family, one, other] = GetParam();
  const Overrides steps{"train.train_iters=4"};
  TemporaryFolder saved, folder, direct, converted;
  save_two_steps(run_of(family, one) + steps, saved);
  const auto cut = folder / "cut";
  const ShardPlan plan = checkpoint_shards(resolve_model_folder(saved.path()),
                                           load_run_config({}, other.overrides + run_sizes()));
  convert_model({.from = saved.path(), .to = cut, .format = ModelFormat::checkpoint, .plan = plan});
  const auto stored = saved_tensors(saved.path());
  expect_equal(saved_tensors(cut), stored);
  EXPECT_EQ(open_checkpoint(cut)->index().shards.size(), static_cast<size_t>(plan.shards));

  const Tensor ids = host_tensor(DType::i64, {4, 16});
  for (int64_t i = 0; i < ids.elements(); ++i) ids.data<int64_t>()[i] = (7 * i + i * i) % 61;
  write_safetensors(folder / "batch.safetensors", {{"input_ids", ids}});
  const auto probed = [&](const std::filesystem::path& model) {
    return bytes_of_all(
        test::probe_layout(model, folder / "batch.safetensors", false, other.overrides));
  };
  const auto values = probed(cut);
  EXPECT_TRUE(values.contains("logits"));
  expect_equal(values, probed(saved.path()));

  with_trainers(run_of(family, other) + steps + from(saved.path(), direct),
                [](Trainer& trainer, Communicator&) { trainer.run(); });
  with_trainers(run_of(family, other) + steps + from(cut, converted),
                [&](Trainer& trainer, Communicator& world) {
                  EXPECT_EQ(trainer.state().step, 2);
                  const bool leads = world.rank() == 0;
                  const auto held = held_tensors(trainer.engine(), world);
                  if (leads) expect_equal(held, stored);
                  trainer.run();
                });
  expect_equal(saved_tensors(converted.path()), saved_tensors(direct.path()));
  const auto losses = metric(converted / "metrics.jsonl", "loss");
  EXPECT_EQ(losses.size(), 2u);
  EXPECT_EQ(losses, metric(direct / "metrics.jsonl", "loss"));
}

std::vector<Pair> converted_pairs() {
  const std::vector<Pair> all = pairs();
  std::vector<Pair> some;
  for (const Pair& pair : all) {
    if (pair.name == "tp2_to_dp2" || pair.name == "transposed_dp4_to_tp2_pp2" ||
        pair.name == "cp2_to_dp4_instances2" || pair.name == "one_to_tp2")
      some.push_back(pair);
  }
  return some;
}

INSTANTIATE_TEST_SUITE_P(Pairs, ConvertedShards, testing::ValuesIn(converted_pairs()),
                         [](const auto& info) { return info.param.name; });

TEST(CheckpointLayout, InTheSameLayoutItIsTheSameRun) {
  for (const LayoutCase& split :
       {layout(2, 1, 1, 2, {"checkpoint.async_save=true"}), layout(1, 2, 2, 1)}) {
    SCOPED_TRACE(split.name);
    const Overrides run = run_of("llama", split);
    TemporaryFolder whole, half, resumed;
    with_trainers(run + Overrides{"checkpoint.save=" + whole.path().string()},
                  [](Trainer& trainer, Communicator&) { trainer.run(); });
    save_two_steps(run, half);
    with_trainers(run + from(half.path(), resumed),
                  [](Trainer& trainer, Communicator&) { trainer.run(); });
    const auto expected = saved_tensors(whole.path()), tensors = saved_tensors(resumed.path());
    ASSERT_EQ(tensors.size(), expected.size());
    for (const auto& [name, bytes] : expected) EXPECT_TRUE(tensors.at(name) == bytes) << name;
  }
}

}  // namespace
}  // namespace viaduct
