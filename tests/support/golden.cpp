#include "support/golden.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "base/file.h"
#include "checkpoint/model_folder.h"
#include "model/family.h"
#include "support/op_testing.h"

namespace viaduct::test {

std::map<std::string, Tensor> probe_case(const std::filesystem::path& model,
                                         const std::filesystem::path& batch,
                                         const ProbeSettings& settings, CpuIsa isa, int threads) {
  const auto device = make_cpu_device(threads);
  const OpTable ops = cpu_ops(isa);
  const SafetensorsFile file(batch);
  ModelFolder folder = resolve_model_folder(model);
  if (file.contains("pixel_values") || file.contains("batch.pixel_values"))
    folder.images = ImageLayers::read;
  const ModelConfig config =
      folder.images == ImageLayers::read
          ? read_model_config(folder)
          : read_hf_config(read_file(model / "config.json"), (model / "config.json").string());
  return run_probe(*device, ops, config, *open_weights(folder), file, settings);
}

double relative_error(const Tensor& a, const Tensor& b) {
  if (!(a.shape() == b.shape()))
    throw std::runtime_error("shapes differ: " + describe(a) + " and " + describe(b));
  const float* x = a.data<float>();
  const float* y = b.data<float>();
  double distance = 0, size = 0;
  for (int64_t i = 0; i < a.elements(); ++i) {
    distance += (double{x[i]} - y[i]) * (double{x[i]} - y[i]);
    size += double{y[i]} * y[i];
  }
  return std::sqrt(distance) /
         std::max(std::sqrt(size), 1e-5 * std::sqrt(static_cast<double>(a.elements())));
}

namespace {

double norm(const Tensor& tensor) {
  double squares = 0;
  for (const double value : values(tensor)) squares += value * value;
  return std::sqrt(squares);
}

}  // namespace

double gradient_error(const Tensor& got, const SafetensorsFile& file, const std::string& name) {
  constexpr std::string_view kKeyBias = "k_proj.bias", kBias = "bias";
  constexpr double kRounding = 1e-5;
  const Tensor expected = file.tensor(name);
  if (name.ends_with(kKeyBias)) {
    const std::string weight = name.substr(0, name.size() - kBias.size()) + "weight";
    const double size = norm(file.tensor(weight));
    if (norm(expected) <= kRounding * size) return norm(got) / size;
  }
  return relative_error(got, expected);
}

double gradient_norm(const SafetensorsFile& file) {
  double squares = 0;
  for (const TensorInfo& info : file.tensors()) {
    if (!info.name.starts_with("grad.")) continue;
    for (const double g : values(file.tensor(info.name))) squares += g * g;
  }
  return std::sqrt(squares);
}

void expect_trained(const std::string& name, const Tensor& ours, const Tensor& theirs,
                    double limit) {
  SCOPED_TRACE(name);
  if (!name.ends_with("attn.c_attn.bias")) {
    EXPECT_LE(relative_error(ours, theirs), limit);
    return;
  }
  const int64_t third = ours.dim(0) / 3;
  for (int64_t i = third; i < 2 * third; ++i)
    EXPECT_NEAR(ours.data<float>()[i], theirs.data<float>()[i], 5e-4);
  for (const int64_t begin : {int64_t{0}, 2 * third}) {
    EXPECT_LE(relative_error(ours.slice(0, begin, third), theirs.slice(0, begin, third)), limit);
  }
}

ProbeSettings reference_training() {
  ProbeSettings settings;
  settings.run.layers.precision = precision_recipe("fp32");
  settings.train = true;
  settings.learning_rate = 1e-3;
  settings.run.optimizer.clip_norm = 1.0;
  settings.run.optimizer.adamw = {0.9, 0.95, 1e-8, 0.1};
  return settings;
}

int expect_gradients_of(const std::map<std::string, Tensor>& got, const SafetensorsFile& file,
                        double limit) {
  EXPECT_LE(relative_error(got.at("logits"), file.tensor("logits")), limit);
  EXPECT_LE(relative_error(got.at("loss"), file.tensor("loss")), limit);
  const double norm = gradient_norm(file);
  EXPECT_NEAR(*got.at("grad_norm").data<float>(), norm, limit * norm);
  int compared = 0;
  for (const TensorInfo& info : file.tensors()) {
    if (!info.name.starts_with("grad.")) continue;
    const auto found = got.find(info.name);
    if (found == got.end()) {
      ADD_FAILURE() << info.name << " is missing";
      continue;
    }
    EXPECT_LE(gradient_error(found->second, file, info.name), limit) << info.name;
    ++compared;
  }
  return compared;
}

}  // namespace viaduct::test
