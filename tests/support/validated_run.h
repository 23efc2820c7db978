#pragma once
// Runs the rules over a run's settings, for their tests.

#include <gmock/gmock.h>

#include "config/load.h"
#include "run/validate.h"

namespace viaduct::test {

struct ValidatedRun {
  RunConfig config;
  std::vector<std::string> problems;
};

/// Settings over a model of 8 layers and 8 heads on 8 ranks; whether a field is built does not
/// matter here.
inline ValidatedRun validated(const std::vector<std::string>& settings) {
  ValidatedRun run;
  std::vector<std::string> all{
      "model.num_layers=8",         "model.hidden_size=64",     "model.num_attention_heads=8",
      "model.num_query_groups=4",   "model.ffn_hidden_size=96", "model.vocab_size=256",
      "model.seq_length=64",        "model.window_size=null",   "dist.ranks=8",
      "train.global_batch_size=32", "train.micro_batch_size=1"};
  all.insert(all.end(), settings.begin(), settings.end());
  const Schema schema = run_schema(run.config);
  Problems problems;
  const ConfigOutcome outcome = read_config(schema, {{}, all}, problems);
  EXPECT_THAT(problems.all(), testing::IsEmpty()) << "the settings themselves";
  validate(run.config, outcome, problems);
  run.problems = problems.all();
  return run;
}

// Short names for frequent settings.
inline std::string tp(int n) {
  return "model.tensor_model_parallel_size=" + std::to_string(n);
}
inline std::string cp(int n) {
  return "model.context_parallel_size=" + std::to_string(n);
}
inline std::string pp(int n) {
  return "model.pipeline_model_parallel_size=" + std::to_string(n);
}
inline std::string vpp(int n) {
  return "model.virtual_pipeline_model_parallel_size=" + std::to_string(n);
}
inline std::string ranks(int n) {
  return "dist.ranks=" + std::to_string(n);
}

}  // namespace viaduct::test

#define EXPECT_GOOD(...) \
  EXPECT_THAT(viaduct::test::validated({__VA_ARGS__}).problems, testing::IsEmpty())
#define EXPECT_ONE(text, ...)                                   \
  EXPECT_THAT(viaduct::test::validated({__VA_ARGS__}).problems, \
              testing::ElementsAre(testing::HasSubstr(text)))
