// One resolved run: a value of the configuration is read into the settings of the folder that owns
// it, and is stored nowhere else on its way to a kernel.

#include "run/resolved_run.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <regex>

#include "base/file.h"
#include "engine/engine.h"
#include "ops/cpu/cpu_ops.h"
#include "support/instruction_set.h"
#include "support/source_text.h"
#include "support/tiny_models.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

struct Setting {
  std::string name;       // of the member that holds the resolved value
  std::string home;       // the header that declares it
  Overrides base, other;  // a configuration, and what changes the value in it
  std::function<std::string(const ResolvedRun&)> value;
};
void PrintTo(const Setting& s, std::ostream* out) {
  *out << s.name;
}

const Overrides kTensor{"dist.ranks=2", "model.tensor_model_parallel_size=2"},
    kStages{"dist.ranks=2", "model.pipeline_model_parallel_size=2", "model.num_layers=4"};

std::vector<Setting> settings() {
  const auto text = [](auto value) { return fmt::format("{}", value); };
  return {
      {"precision",
       "src/nn/layer_settings.h",
       {"mixed_precision=fp32"},
       {"mixed_precision=bf16_mixed"},
       [=](const ResolvedRun& run) { return run.layers.precision.name; }},
      {"fusions",
       "src/nn/layer_settings.h",
       {},
       {"model.bias_dropout_fusion=false"},
       [=](const ResolvedRun& run) { return text(run.layers.fusions.bias_dropout); }},
      {"sequence_parallel",
       "src/nn/layer_settings.h",
       kTensor,
       {"model.sequence_parallel=false"},
       [=](const ResolvedRun& run) { return text(run.layers.sequence_parallel); }},
      {"overlap",
       "src/nn/layer_settings.h",
       kTensor,
       {"comm_overlap.tp_comm_overlap=true", "model.tp_comm_bulk_dgrad=false"},
       [=](const ResolvedRun& run) {
         return std::string(choice_name(run.layers.overlap[OverlapGemm::qkv_dgrad].method));
       }},
      {"recompute_logits",
       "src/nn/layer_settings.h",
       {"model.recompute_logits=true"},
       {"model.recompute_logits=false"},
       [=](const ResolvedRun& run) { return text(run.layers.recompute_logits); }},
      {"layer_map",
       "src/pipeline/parallelism.h",
       kStages,
       {"model.num_layers_in_first_pipeline_stage=1"},
       [=](const ResolvedRun& run) { return text(run.parallelism.layer_map[0].blocks); }},
      {"schedule",
       "src/pipeline/parallelism.h",
       kStages,
       {"model.pipeline_schedule=gpipe"},
       [=](const ResolvedRun& run) {
         return std::string(schedule_kind_name(run.parallelism.schedule.kind));
       }},
      {"executor",
       "src/pipeline/parallelism.h",
       kStages,
       {"model.deallocate_pipeline_outputs=false"},
       [=](const ResolvedRun& run) { return text(run.parallelism.executor.deallocate_outputs); }},
      {"saved_policy",
       "src/sharding/memory_settings.h",
       {},
       {"model.recompute_granularity=selective"},
       [=](const ResolvedRun& run) { return text(run.memory.saved_policy.keeps_everything()); }},
      {"partial",
       "src/sharding/memory_settings.h",
       {"model.recompute_granularity=selective"},
       {"model.num_microbatches_with_partial_activation_checkpoints=0"},
       [=](const ResolvedRun& run) { return text(run.memory.partial.has_value()); }},
      {"second_memory",
       "src/sharding/memory_settings.h",
       {},
       {"memory.offload_bytes=8192"},
       [=](const ResolvedRun& run) {
         return text(run.memory.second_memory.most_bytes.value_or(0));
       }},
      {"clip_norm",
       "src/optim/make_optimizer.h",
       {},
       {"optimizer.clip_grad=0.5"},
       [=](const ResolvedRun& run) { return text(run.optimizer.clip_norm); }},
      {"calculate_per_token_loss",
       "src/run/resolved_run.h",
       {},
       {"model.calculate_per_token_loss=false"},
       [=](const ResolvedRun& run) { return text(run.calculate_per_token_loss); }},
  };
}

class ResolvedRuns : public testing::TestWithParam<Setting> {};

TEST_P(ResolvedRuns, HoldWhatTheConfigurationSays) {
  const Setting& s = GetParam();
  const auto value = [&](const Overrides& more) {
    const RunSetup setup = setup_of(tiny_run() + s.base + more);
    return s.value(resolve_run(setup.config, setup.model));
  };
  EXPECT_NE(value({}), value(s.other));
}

/// Headers of src/ that declare a member of this name, except those of the typed configuration, and
/// except pointers and references.
std::vector<std::string> holders(const std::string& name) {
  const std::regex member(fmt::format(R"(\n +[A-Za-z_][A-Za-z0-9_:<>, ]* {}( = [^;]*)?;)", name));
  std::vector<std::string> files;
  for (const auto& path : files_below("src", {".h"})) {
    const std::string file = shown(path);
    if (file.ends_with("_config.h") || file.ends_with("_fields.h")) continue;
    const std::string code = without_comments_and_literals(read_file(path));
    if (std::regex_search(code, member)) files.push_back(file);
  }
  return files;
}

TEST_P(ResolvedRuns, AreStoredOnce) {
  EXPECT_EQ(holders(GetParam().name), std::vector{GetParam().home});
}

INSTANTIATE_TEST_SUITE_P(Settings, ResolvedRuns, testing::ValuesIn(settings()),
                         [](const auto& info) { return info.param.name; });

TEST(ResolvedRuns, HaveTheDefaultsOfTheConfiguration) {
  DdpConfig ddp;
  ddp.resolve(1, false);
  EXPECT_TRUE(ResolvedRun{}.store == store_settings(ddp));
}

TEST(ResolvedRuns, AreHandedDownByReference) {
  const auto device = make_cpu_device(1);
  const OpTable ops = cpu_ops(instruction_set());
  ResolvedRun run;
  run.positions = 8;
  Engine engine(*device, ops, small_llama(), run);
  EXPECT_EQ(&engine.run(), &run);
  EXPECT_EQ(&engine.context(true, true).settings, &run.layers);
}

}  // namespace
}  // namespace viaduct
