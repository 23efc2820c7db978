// What routers' own losses add to gradients, with labels that are masked unevenly: the same in
// every layout, for both kinds of mean of the loss and for any size of micro-batch.

#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/safetensors_reader.h"
#include "checkpoint/safetensors_writer.h"
#include "support/layout_run.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using test::layout;
using test::LayoutCase;
using test::TemporaryFolder;
using test::test_data;
using Overrides = std::vector<std::string>;

constexpr int64_t kRows = 4, kLength = 16;

/// Row r has 4 · (r + 1) labels that are not masked.
void write_batch(const std::filesystem::path& path) {
  const Tensor ids = host_tensor(DType::i64, {kRows, kLength});
  const Tensor labels = host_tensor(DType::i64, {kRows, kLength});
  for (int64_t i = 0; i < kRows * kLength; ++i) {
    const int64_t row = i / kLength, at = i % kLength;
    ids.data<int64_t>()[i] = (i * 37 + row * 11) % 50 + 3;
    labels.data<int64_t>()[i] = at < kLength - 4 * (row + 1) ? -100 : ids.data<int64_t>()[i];
  }
  write_safetensors(path, {{"input_ids", ids}, {"labels", labels}});
}

using Gradients = std::map<std::string, Tensor>;

Gradients probe(const Overrides& overrides) {
  const TemporaryFolder folder;
  write_batch(folder / "batch.safetensors");
  Gradients all = test::probe_layout(test_data("golden") / "qwen3_moe" / "model",
                                     folder / "batch.safetensors", false, overrides);
  std::erase_if(all, [](const auto& entry) { return !entry.first.starts_with("grad."); });
  return all;
}

/// The gradient with the losses less the one without, all tensors in a row.
std::vector<double> added(const Overrides& run) {
  Overrides with = run;
  with.insert(with.end(), {"model.moe_router_load_balancing_type=seq_aux_loss",
                           "model.moe_aux_loss_coeff=3", "model.moe_z_loss_coeff=2"});
  Overrides without = run;
  without.insert(without.end(), {"model.moe_aux_loss_coeff=0"});
  const Gradients more = probe(with), less = probe(without);
  std::vector<double> values;
  for (const auto& [name, tensor] : less) {
    const Tensor& other = more.at(name);
    for (int64_t i = 0; i < tensor.elements(); ++i)
      values.push_back(double{other.data<float>()[i]} - double{tensor.data<float>()[i]});
  }
  return values;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += std::pow(a.at(i) - b[i], 2);
    size += std::pow(b[i], 2);
  }
  return std::sqrt(difference / size);
}

const std::vector<double>& alone() {
  static const std::vector<double> values = added({});
  return values;
}

class RouterWeight : public testing::TestWithParam<LayoutCase> {};

TEST_P(RouterWeight, IsTheSame) {
  for (const char* per_token : {"true", "false"}) {
    Overrides run = GetParam().overrides;
    run.push_back(std::string("model.calculate_per_token_loss=") + per_token);
    EXPECT_LE(distance(added(run), alone()), 1e-4) << per_token;
  }
}

const std::string kOneRow = "train.micro_batch_size=1", kTwoRows = "train.micro_batch_size=2";

INSTANTIATE_TEST_SUITE_P(
    Layouts, RouterWeight,
    testing::Values(layout(1, 1, 1, 1, {}, "whole"), layout(1, 1, 1, 1, {kOneRow}, "rows"),
                    layout(1, 1, 1, 2, {kOneRow}),
                    layout(1, 1, 1, 2, {"model.expert_model_parallel_size=2"}, "experts"),
                    layout(2, 1, 1, 1), layout(1, 2, 1, 1, {kTwoRows}),
                    layout(1, 1, 2, 1, {kOneRow}), layout(2, 1, 1, 2, {kOneRow})),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace viaduct
