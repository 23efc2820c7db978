// `generate` and `eval` with dist.device=cuda: the cpu's tokens, and its loss.

#include <gmock/gmock.h>

#include "base/file.h"
#include "cuda_host/nccl/nccl_double.h"
#include "cuda_host/streams.h"
#include "generate/prompts.h"
#include "inference/text_evaluation.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "support/language_model.h"

namespace viaduct {
namespace {

using namespace test;

using Settings = std::vector<std::string>;

const Settings kTwoTensorRanks{"dist.ranks=2", "model.tensor_model_parallel_size=2"};

Settings on_cuda(Settings settings) {
  settings.push_back("dist.device=cuda");
  return settings;
}

void reset_devices(uint64_t seed) {
  // Host access to the device's memory is a fault.
  cuda_host::reset_runtime({.seed = seed, .devices = 2, .guard = true});
  nccl_double::reset({.seed = seed});
}

TEST(CudaGeneration, ChoosesTheCpusTokens) {
  GenerationWork work;
  work.batches = batches_by_length({{0, {5, 9, 44, 7}, 8}, {1, {30, 12}, 8}}, 2);
  work.options.sampling.temperature = 0;
  for (const auto& [family, settings] :
       {std::pair{"llama", Settings{}}, {"llama", kTwoTensorRanks}, {"mixtral", Settings{}}}) {
    SCOPED_TRACE(family);
    const LanguageModel model(family);
    const auto cpu = generate_texts(model.generation(settings), work);
    reset_devices(6);
    const auto cuda = generate_texts(model.generation(on_cuda(settings)), work);
    ASSERT_EQ(cuda.size(), 2u);
    for (size_t i = 0; i < cuda.size(); ++i)
      EXPECT_EQ(cuda[i].generated.tokens, cpu[i].generated.tokens);
  }
}

TEST(CudaEvaluation, HasTheCpusLoss) {
  const LanguageModel model("llama");
  const TemporaryFolder folder;
  write_file_atomically(folder / "text.txt",
                        "the hat and the cat\nthat the rat had in the hall; and then: 17 bats!");
  const auto loss = [&](const Settings& settings) {
    const TextEvaluation evaluation = prepare_text_evaluation(
        {.inference = {.model = model.path(), .overrides = settings, .sequence_length = 16},
         .data = folder / "text.txt",
         .stride = 8});
    double result = 0;
    run_ranks(evaluation.run.config.dist, {}, [&](std::shared_ptr<Communicator> world) {
      const bool leads = world->rank() == 0;
      const RankDevice rank = make_rank_device(evaluation.run.config.dist);
      const TextScore score = evaluate_text(evaluation, *rank.device, rank.ops, std::move(world),
                                            [](int64_t, int64_t) {});
      if (leads) result = score.loss;
    });
    return result;
  };
  for (const Settings& settings : {Settings{}, kTwoTensorRanks}) {
    const double cpu = loss(settings);
    reset_devices(7);
    EXPECT_NEAR(loss(on_cuda(settings)), cpu, 2e-5 * cpu);
    EXPECT_GT(cuda_host::runtime_counts().kernels, 0);
  }
}

}  // namespace
}  // namespace viaduct
