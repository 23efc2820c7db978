// Routers of packed documents whose lengths no cut divides: the padding that the cut adds over
// context and tensor ranks is in no count, loss or bias, so that runs are those of one rank.

#include <gmock/gmock.h>

#include "base/json.h"
#include "data/indexed_dataset_writer.h"
#include "support/layout_run.h"
#include "support/rank_trainers.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

/// Documents of 3 to 9 tokens, the last of which is the separator.
void write_documents(const std::filesystem::path& prefix) {
  constexpr int32_t kEnd = 60;
  IndexedDatasetWriter writer(prefix, TokenType::uint16);
  for (int32_t d = 0; d < 300; ++d) {
    std::vector<int32_t> document;
    for (int32_t i = 0; i < 2 + d % 7; ++i) document.push_back((7 * d + 5 * i * i) % kEnd);
    document.push_back(kEnd);
    writer.add_document(document);
  }
  writer.finish();
}

struct Routed {
  std::vector<double> losses, norms;
  nlohmann::json routers;  // of the last step
};

Routed train(const Overrides& overrides) {
  const TemporaryFolder folder;
  write_documents(folder / "data");
  train_ranks(tiny_run("qwen3_moe") +
              Overrides{"model.num_moe_experts=8", "model.moe_router_topk=2",
                        "model.moe_ffn_hidden_size=24", "model.num_query_groups=4",
                        "model.init_method_std=0.3", "train.train_iters=3",
                        "train.micro_batch_size=1", "optimizer.lr=1e-3", "dataset.mock=false",
                        "dataset.blend=[" + (folder / "data").string() + "]", "dataset.split=1,0,0",
                        "dataset.eod_id=60", "dataset.reset_attention_mask=true",
                        "dataset.reset_position_ids=true", "dist.threads_per_rank=1",
                        "dist.distributed_timeout_minutes=1",
                        "checkpoint.save=" + (folder / "run").string()} +
              overrides);
  const auto metrics = folder / "run/metrics.jsonl";
  return {metric(metrics, "loss"), metric(metrics, "grad_norm"),
          nlohmann::json::parse(last_line(metrics)).at("routers")};
}

void expect_near(const std::vector<double>& got, const std::vector<double>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-4 * expected[i]) << i;
}

class PaddingOfRouters : public testing::TestWithParam<Overrides> {};

TEST_P(PaddingOfRouters, CountsNowhere) {
  const Routed one = train(GetParam());
  for (const LayoutCase& c : {layout(1, 2, 1, 1), layout(2, 1, 1, 1), layout(1, 4, 1, 1),
                              layout(2, 2, 1, 1, {"model.expert_model_parallel_size=2"})}) {
    const Routed got = train(GetParam() + c.overrides);
    SCOPED_TRACE(c.name);
    expect_near(got.losses, one.losses);
    expect_near(got.norms, one.norms);
    for (const auto& [name, figure] : one.routers.items())
      for (const char* of : {"min", "mean", "max"})
        EXPECT_NEAR(got.routers.at(name).at(of).get<double>(), figure.at(of).get<double>(), 1e-4)
            << name << " " << of;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Losses, PaddingOfRouters,
    testing::Values(Overrides{"model.moe_router_load_balancing_type=aux_loss",
                              "model.moe_aux_loss_coeff=0.5", "model.moe_z_loss_coeff=0.1"},
                    Overrides{"model.moe_router_load_balancing_type=seq_aux_loss",
                              "model.moe_aux_loss_coeff=0.5"},
                    Overrides{"model.moe_router_load_balancing_type=global_aux_loss",
                              "model.moe_aux_loss_coeff=0.5", "model.recompute_granularity=full",
                              "model.recompute_method=uniform", "model.recompute_num_layers=1"},
                    Overrides{"model.moe_router_load_balancing_type=none",
                              "model.moe_router_score_function=sigmoid",
                              "model.moe_router_pre_softmax=false",
                              "model.moe_router_enable_expert_bias=true",
                              "model.moe_router_bias_update_rate=0.01"}));

}  // namespace
}  // namespace viaduct
