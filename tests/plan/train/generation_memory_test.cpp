// Memory of generation and of `viaduct eval` equals that of their dry runs, by owner.

#include <gmock/gmock.h>

#include "inference/text_evaluation.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "run/resolved_run.h"
#include "support/language_model.h"
#include "support/paths.h"

namespace viaduct {
namespace {

using namespace test;
using Overrides = std::vector<std::string>;

/// Bytes at the peak, by owner, of owners that hold any.
std::map<std::string, int64_t> peak_of(const Device& device) {
  std::map<std::string, int64_t> peak;
  for (int tag = 0; tag < kMemoryTags; ++tag) {
    const int64_t bytes = device.memory().peak_bytes_by_tag[static_cast<size_t>(tag)];
    if (bytes > 0) peak[std::string(memory_tag_name(static_cast<MemoryTag>(tag)))] = bytes;
  }
  return peak;
}

std::map<std::string, int64_t> peak_of(const DryRun& run) {
  std::map<std::string, int64_t> peak = run.peak.bytes_by_tag;
  std::erase_if(peak, [](const auto& owner) { return owner.second == 0; });
  return peak;
}

/// Prompts that all reach the same length: in a dry run no text ends before the others.
GenerationWork work_of(int64_t prompts, int64_t tokens, int64_t new_tokens) {
  GenerationWork work;
  work.options.sampling.temperature = 0;
  work.batches.emplace_back();
  for (int64_t i = 0; i < prompts; ++i) {
    work.batches.back().push_back(
        {i, std::vector<int32_t>(static_cast<size_t>(tokens), static_cast<int32_t>(i + 3)),
         new_tokens});
  }
  return work;
}

struct Case {
  std::string name, model;
  Overrides overrides;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

class GenerationMemory : public testing::TestWithParam<Case> {};

TEST_P(GenerationMemory, IsThatOfTheDryRun) {
  const LanguageModel model(GetParam().model);
  const RunSetup setup = model.generation(GetParam().overrides);
  for (const GenerationWork& work : {work_of(1, 5, 9), work_of(3, 60, 40), work_of(2, 90, 1)}) {
    const std::vector<DryRun> stages = dry_run_generation(setup, work);
    const Mesh mesh = resolve_run(setup.config, setup.model).parallelism.mesh;
    std::vector<std::map<std::string, int64_t>> peaks(static_cast<size_t>(setup.config.dist.ranks));
    generate_texts(
        setup, work, [](int, Device& device) { device.reset_peak(); },
        [&](int rank, Device& device) { peaks[static_cast<size_t>(rank)] = peak_of(device); });
    for (int rank = 0; rank < setup.config.dist.ranks; ++rank) {
      const int stage = mesh.coordinate({rank}, Axis::pp).value;
      if (mesh.coordinate({rank}, Axis::dp).value > 0) continue;  // without a batch
      EXPECT_EQ(peaks[static_cast<size_t>(rank)], peak_of(stages[static_cast<size_t>(stage)]))
          << "rank " << rank << ", " << work.batches[0].size() << " prompts";
      EXPECT_GT(peaks[static_cast<size_t>(rank)].at("kv cache"), 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, GenerationMemory,
    testing::Values(
        Case{"one", "gpt2", {}}, Case{"bf16", "llama", {"mixed_precision=bf16_mixed"}},
        Case{"untiled", "llama", {"mixed_precision=bf16_mixed", "model.packed_weights=false"}},
        Case{"tp2", "llama", {"dist.ranks=2", "model.tensor_model_parallel_size=2"}},
        Case{"pp2", "gpt2", {"dist.ranks=2", "model.pipeline_model_parallel_size=2"}},
        Case{"dp2", "llama", {"dist.ranks=2"}}),
    [](const auto& info) { return info.param.name; });

TEST(GenerationMemory, TheCacheIsCutLikeTheHeads) {
  const LanguageModel model("llama");
  const GenerationWork work = work_of(2, 20, 5);
  const auto cache = [&](const Overrides& overrides) {
    return peak_of(dry_run_generation(model.generation(overrides), work).front()).at("kv cache");
  };
  const int64_t indices = (3 + 2) * 4;  // offsets and diagonal
  const int64_t whole = cache({}) - indices;
  EXPECT_EQ(cache({"dist.ranks=2", "model.tensor_model_parallel_size=2"}) - indices, whole / 2);
  EXPECT_EQ(cache({"dist.ranks=2", "model.pipeline_model_parallel_size=2"}) - indices, whole / 2);
  EXPECT_EQ(cache({"mixed_precision=bf16_mixed"}) - indices, whole / 2);
}

class EvaluationMemory : public testing::TestWithParam<Case> {};

TEST_P(EvaluationMemory, IsThatOfTheDryRun) {
  const LanguageModel model(GetParam().model);
  Overrides overrides = GetParam().overrides;
  overrides.push_back("dist.threads_per_rank=1");
  const TextEvaluation evaluation = prepare_text_evaluation(
      {.inference = {.model = model.path(), .overrides = overrides, .sequence_length = 32},
       .data = source_folder() / "README.md",
       .stride = 32});
  const std::vector<DryRun> stages = dry_run_stages(evaluation.run);
  const Mesh mesh = resolve_run(evaluation.run.config, evaluation.run.model).parallelism.mesh;
  run_ranks(evaluation.run.config.dist, {}, [&](std::shared_ptr<Communicator> world) {
    const int number = world->rank();
    const RankDevice rank = make_rank_device(evaluation.run.config.dist);
    const auto look = [&](int64_t done, int64_t) {
      if (done == 1) rank.device->reset_peak();  // memory used by reading the weights
    };
    evaluate_text(evaluation, *rank.device, rank.ops, std::move(world), look);
    const auto stage = mesh.coordinate({number}, Axis::pp).value;
    EXPECT_EQ(peak_of(*rank.device), peak_of(stages[static_cast<size_t>(stage)]));
    EXPECT_EQ(peak_of(*rank.device).count("moments"), 0u);
    EXPECT_EQ(peak_of(*rank.device).count("main gradients"), 0u);
    EXPECT_EQ(rank.device->memory().unplanned_allocations, 0);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, EvaluationMemory,
    testing::Values(Case{"one", "gpt2", {}}, Case{"bf16", "llama", {"mixed_precision=bf16_mixed"}},
                    Case{"tp2", "llama", {"dist.ranks=2", "model.tensor_model_parallel_size=2"}},
                    Case{"pp2", "gpt2", {"dist.ranks=2", "model.pipeline_model_parallel_size=2"}},
                    Case{"cp2", "llama", {"dist.ranks=2", "model.context_parallel_size=2"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace viaduct
