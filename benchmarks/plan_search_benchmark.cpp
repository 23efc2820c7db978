// `viaduct plan`: lower bounds of layouts in closed form, a whole search, and the prediction of one
// configuration.

#include <benchmark/benchmark.h>

#include <sstream>

#include "plan/layout_space.h"
#include "plan/model_catalog.h"
#include "plan/model_cost.h"
#include "plan/planning_defaults.h"
#include "plan/predict.h"
#include "plan/search.h"
#include "plan/stage_runs.h"
#include "run/setup.h"

namespace viaduct {
namespace {

PlanRequest request_of(const std::string& model, int ranks, int rows) {
  PlanRequest request{.overrides = catalog_model(model), .cluster = load_cluster("dgx-h100")};
  for (const std::string& field :
       {std::string("model.seq_length=8192"), std::string("model.max_position_embeddings=8192"),
        std::string("mixed_precision=bf16_mixed"), "dist.ranks=" + std::to_string(ranks),
        "train.global_batch_size=" + std::to_string(rows)})
    request.overrides.push_back(field);
  return request;
}

/// Both bounds of all layouts of Llama 3 70B on 1,024 GPUs; items are layouts.
void bounds(benchmark::State& state) {
  const PlanRequest request = request_of("llama3-70b", 1024, 1024);
  LayerCosts costs(request);
  const SearchLimits limits = search_limits(request, costs.whole());
  const ModelCost model = model_cost(request, limits, costs);
  const LayoutBound bound(model, request.cluster, request.prediction.collectives);
  const auto layouts = enumerate_layouts(limits.space);
  const LayerCost layer = costs.of(Layout());
  for (auto _ : state) {
    for (const Layout& layout : layouts) {
      benchmark::DoNotOptimize(model_bound(model, layout));
      benchmark::DoNotOptimize(bound.of(layer, layout));
    }
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(layouts.size()));
}
BENCHMARK(bounds);

void enumeration(benchmark::State& state) {
  const PlanRequest request = request_of("llama3-70b", 1024, 1024);
  const LayerCosts costs(request);
  const SearchLimits limits = search_limits(request, costs.whole());
  int64_t layouts = 0;
  for (auto _ : state) layouts += static_cast<int64_t>(enumerate_layouts(limits.space).size());
  state.SetItemsProcessed(layouts);
}
BENCHMARK(enumeration);

/// `range`: GPUs. User CPU time is that of all threads.
void search(benchmark::State& state, const char* model) {
  const PlanRequest request = request_of(model, static_cast<int>(state.range(0)), 1024);
  for (auto _ : state) {
    const SearchResult result = search_layouts(request, {.time_limit_seconds = 60});
    state.counters["layouts"] = static_cast<double>(result.layouts);
    state.counters["layers"] = static_cast<double>(result.layer_costs);
    state.counters["predicted"] = static_cast<double>(result.dry_runs);
    state.counters["proven"] = result.complete ? 1 : 0;
  }
}
BENCHMARK_CAPTURE(search, llama3_8b, "llama3-8b")
    ->Arg(64)
    ->Arg(1024)
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->Iterations(1);
BENCHMARK_CAPTURE(search, llama3_70b, "llama3-70b")
    ->Arg(1024)
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->Iterations(1);

/// The configuration of Llama 3's paper on 16,384 GPUs, and a search's best layout on 1,024, with
/// 128 micro-batches.
void configuration(benchmark::State& state, int ranks, const char* more) {
  std::vector<std::string> overrides{"dist.ranks=" + std::to_string(ranks)};
  std::stringstream words(more);
  for (std::string word; words >> word;) overrides.push_back(word);
  const Cluster cluster = load_cluster("dgx-h100");
  for (auto _ : state) {
    const RunSetup setup = prepare_run(load_run_config("configs/guides/llama3_405b_meta.yaml",
                                                       overrides, planning_defaults(cluster)));
    const Prediction prediction =
        predict(setup, cluster, prediction_settings(cluster), kPlanThreads);
    state.counters["step_seconds"] = prediction.step_seconds;
  }
}
BENCHMARK_CAPTURE(configuration, llama3_405b, 16384, "")
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(configuration, llama3_405b_128_micro_batches, 1024,
                  "train.global_batch_size=512 model.context_parallel_size=2 "
                  "model.account_for_embedding_in_pipeline_split=false "
                  "model.account_for_loss_in_pipeline_split=false "
                  "model.pipeline_model_parallel_layout=Et|(tt|)*62tL")
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime();

}  // namespace
}  // namespace viaduct
