// Greedy generation compared with transformers on the golden models, plain and with a repetition
// penalty, token by token (tests/data/generation.json, written by tools/oracle/greedy.py).

#include <gmock/gmock.h>

#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/parameter_io.h"
#include "generate/generate.h"
#include "ops/cpu/cpu_ops.h"
#include "run/resolved_run.h"
#include "support/instruction_set.h"
#include "support/paths.h"

namespace viaduct {
namespace {

using nlohmann::json;
using test::test_data;

const json& reference() {
  static const json kReference = json::parse(read_file(test_data("generation.json")));
  return kReference;
}

std::vector<std::string> models() {
  std::vector<std::string> names;
  for (const auto& [name, values] : reference().at("models").items()) names.push_back(name);
  return names;
}

class GreedyGeneration : public testing::TestWithParam<std::string> {};

TEST_P(GreedyGeneration, GivesTheTokensOfTransformers) {
  const json& expected = reference().at("models").at(GetParam());
  const ModelFolder folder = resolve_model_folder(test_data("golden") / GetParam() / "model");
  const ModelConfig config = read_model_config(folder);
  const auto device = make_cpu_device(2);
  const OpTable ops = cpu_ops(test::instruction_set());
  const auto ids = expected.at("prompt").get<std::vector<int32_t>>();
  const auto tokens = static_cast<int64_t>(expected.at("greedy").size());
  const ResolvedRun run;
  Generator generator(
      *device, ops, config,
      {run.layers, run.parallelism, run.memory, static_cast<int64_t>(ids.size()) + tokens});
  OpContext context = generator.context();
  load_parameters(context, generator.store(), *open_weights(folder), config);
  Prompt prompt{0, ids, tokens};
  if (config.encoder.any()) {
    prompt.input = std::exchange(prompt.ids, {static_cast<int32_t>(config.encoder.start_token)});
  }
  const std::vector<Prompt> prompts{prompt};
  const auto go_on = [](size_t, int32_t) { return true; };
  for (const char* kind : {"greedy", "penalized"}) {
    GenerateOptions options;
    options.sampling.temperature = 0;
    if (kind == std::string("penalized"))
      options.sampling.repetition_penalty = reference().at("repetition_penalty");
    EXPECT_EQ(generate(generator, prompts, options, go_on).front().tokens,
              expected.at(kind).get<std::vector<int32_t>>())
        << kind;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GreedyGeneration, testing::ValuesIn(models()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace viaduct
