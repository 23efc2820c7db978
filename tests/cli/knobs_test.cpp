// `viaduct knobs` as scripts use it, and the page that it writes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "base/file.h"
#include "base/json.h"
#include "support/command.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using testing::HasSubstr;

using Result = test::CommandResult;

Result knobs(const std::string& arguments) {
  return test::run_viaduct("knobs " + arguments);
}

TEST(KnobsCommand, JsonHasEveryKnobInFull) {
  const auto document = nlohmann::json::parse(knobs("--json").out);
  std::set<std::string> names;
  for (const auto& knob : document["knobs"]) {
    const std::string name = knob["name"];
    EXPECT_TRUE(names.insert(name).second) << name << " is listed twice";
    for (const char* key : {"aliases", "type", "default", "unit", "doc", "constraints", "state"}) {
      EXPECT_TRUE(knob.contains(key)) << name << " has no " << key;
    }
    for (const char* device : {"cpu", "cuda", "sim"}) {
      const std::string state = knob["state"][device];
      EXPECT_TRUE(state == "built" || state == "planned" || state == "not applicable") << name;
    }
  }
  EXPECT_GT(names.size(), 300u);
  EXPECT_EQ(names.count("optimizer.lr"), 1u);
}

TEST(KnobsCommand, AnySpellingShowsTheField) {
  EXPECT_THAT(knobs("recipe.model.config.recompute_granuality").out,
              HasSubstr("model.recompute_granularity"));
  EXPECT_THAT(knobs("log_energy").out, HasSubstr("state        planned"));
  EXPECT_THAT(knobs("lr").out, HasSubstr("state        built"));
  EXPECT_THAT(knobs("lr --json").out, HasSubstr("\"sim\": \"built\""));
  EXPECT_THAT(knobs("NCCL_NVLS_ENABLE").out, HasSubstr("environment variable"));
  EXPECT_THAT(knobs("ProfilingConfig").out, HasSubstr("profiling.profile_ranks"));
}

TEST(KnobsCommand, PartsOfNamesAndWordsOfHuggingFace) {
  const Result part = knobs("warmup_it");
  EXPECT_EQ(part.status, 0);
  EXPECT_THAT(part.out, testing::AllOf(HasSubstr("scheduler.lr_warmup_iters"),
                                       testing::Not(HasSubstr("optimizer.lr "))));
  EXPECT_THAT(knobs("gradient_accumulation_steps").out,
              testing::AllOf(HasSubstr("(Hugging Face) is train.global_batch_size: "),
                             HasSubstr("state        built")));
  EXPECT_THAT(knobs("learning-rate").out, HasSubstr("is optimizer.lr\n"));
  for (const auto& [word, field] : {std::pair{"eval_strategy", "validation.eval_interval"},
                                    {"attn_implementation", "model.attention_backend"},
                                    {"n_routed_experts", "model.num_moe_experts"},
                                    {"resid_pdrop", "model.hidden_dropout"}})
    EXPECT_THAT(knobs(word).out, HasSubstr(std::string(" (Hugging Face) is ") + field));
  EXPECT_THAT(knobs("tp_size").out, HasSubstr("is model.tensor_model_parallel_size\n"));
  EXPECT_THAT(knobs("dropout").out,
              HasSubstr("also with this in the name: model.hidden_dropout, "));
  // A word of a field's text, where no name has it.
  EXPECT_THAT(knobs("wildcards").out, HasSubstr("peft.target_modules"));
}

TEST(KnobsCommand, UnknownNamesGetTheNearestOne) {
  const Result result = knobs("micro_batchsize");
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("did you mean 'train.micro_batch_size'?"));
}

TEST(ConfigurationPage, IsWhatTheFieldsSay) {
  const std::string page = read_file(test::source_folder() / "docs/configuration.md");
  EXPECT_EQ(page, knobs("--markdown").out)
      << "run: viaduct knobs --markdown > docs/configuration.md";
}

}  // namespace
}  // namespace viaduct
