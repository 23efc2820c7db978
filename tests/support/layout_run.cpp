#include "support/layout_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>

#include "probe/probe_setup.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "support/golden.h"
#include "support/instruction_set.h"
#include "support/paths.h"

namespace viaduct::test {

void PrintTo(const LayoutCase& c, std::ostream* os) {
  *os << c.name;
}

bool LayoutCase::suits(const std::string& reference) const {
  return only.empty() || std::find(only.begin(), only.end(), reference) != only.end();
}

LayoutCase layout(int tp, int cp, int pp, int dp, std::vector<std::string> more,
                  const std::string& suffix) {
  LayoutCase c;
  const auto axis = [&](const char* name, const char* field, int size) {
    if (size == 1) return;
    c.name += (c.name.empty() ? "" : "_") + std::string(name) + std::to_string(size);
    if (field[0] != '\0')
      c.overrides.push_back("model." + std::string(field) + "=" + std::to_string(size));
  };
  axis("tp", "tensor_model_parallel_size", tp);
  axis("cp", "context_parallel_size", cp);
  axis("pp", "pipeline_model_parallel_size", pp);
  axis("dp", "", dp);
  c.overrides.push_back("dist.ranks=" + std::to_string(tp * cp * pp * dp));
  c.overrides.insert(c.overrides.end(), more.begin(), more.end());
  if (!suffix.empty()) c.name += "_" + suffix;
  return c;
}

std::map<std::string, Tensor> probe_layout(const std::filesystem::path& model,
                                           const std::filesystem::path& batch, bool train,
                                           std::vector<std::string> overrides) {
  overrides.push_back("dist.threads_per_rank=1");
  for (const std::string& isa : instruction_set_override()) overrides.push_back(isa);
  overrides.push_back("dist.distributed_timeout_minutes=1");
  const ProbeSetup setup =
      prepare_probe({.model = model, .batch = batch, .overrides = overrides, .train = train});
  std::map<std::string, Tensor> dump;
  run_ranks(setup.config.dist, {}, [&](std::shared_ptr<Communicator> world) {
    const bool leads = world->rank() == 0;
    const RankDevice rank = make_rank_device(setup.config.dist);
    auto values = run_probe(*rank.device, rank.ops, setup.model, *setup.weights, *setup.batch,
                            setup.settings, std::move(world));
    if (leads) dump = std::move(values);
  });
  return dump;
}

void PrintTo(const ModelLayout& c, std::ostream* os) {
  *os << c.name();
}

std::vector<ModelLayout> models_in_layouts(const std::vector<std::string>& models,
                                           const std::vector<LayoutCase>& layouts) {
  std::vector<ModelLayout> all;
  for (const std::string& model : models)
    for (const LayoutCase& one : layouts)
      if (one.suits(model)) all.push_back({model, one});
  return all;
}

int expect_reference(const ModelLayout& c, double limit) {
  const auto folder = test_data("golden") / c.model, golden = folder / "golden.safetensors";
  const auto got = probe_layout(folder / "model", golden, false, c.layout.overrides);
  return expect_gradients_of(got, SafetensorsFile(golden), limit);
}

void expect_trace(const ModelLayout& c) {
  const auto folder = test_data("golden") / c.model;
  std::vector<std::string> overrides = c.layout.overrides;
  for (const std::string& setting : reference_optimizer()) overrides.push_back(setting);
  const auto got = probe_layout(folder / "model", folder / "train.safetensors", true, overrides);
  const SafetensorsFile file(folder / "train.safetensors");
  for (const char* name : {"loss", "grad_norm"}) {
    const Tensor expected = file.tensor(name);
    for (int64_t step = 0; step < 10; ++step) {
      const float value = expected.data<float>()[step];
      EXPECT_NEAR(got.at(name).data<float>()[step], value, 2e-4 * value)
          << name << ", step " << step + 1;
    }
  }
}

std::vector<std::string> reference_optimizer() {
  return {
      "optimizer.optimizer=adam",   "optimizer.lr=1e-3",        "optimizer.min_lr=1e-3",
      "optimizer.weight_decay=0.1", "optimizer.adam_beta1=0.9", "optimizer.adam_beta2=0.95",
      "optimizer.adam_eps=1e-8",    "optimizer.clip_grad=1.0",  "scheduler.lr_decay_style=constant",
      "scheduler.lr_warmup_iters=0"};
}

}  // namespace viaduct::test
