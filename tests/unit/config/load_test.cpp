#include "config/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

// A program with two sections, one of them owned by two folders.
struct Train {
  int64_t steps = 10;
  std::optional<int64_t> seed;
  Auto<bool> fast;
  std::vector<double> weights{0.5};
  std::string device = "cpu";
  bool operator==(const Train&) const = default;
};
struct Model {
  double rate = 0.1;
  Value scaling;
  int layers = 2;
};

struct Program {
  Train train;
  Model model;
  Schema schema{groups()};

  std::vector<FieldGroup> groups() {
    FieldGroup a("train", "The loop.");
    a.field("steps", train.steps, "Steps.")
        .range(1)
        .alias("iters")
        .alias("recipe.trainer.max_steps");
    a.field("seed", train.seed, "Seed.");
    a.field("fast", train.fast, "Fast path.");
    FieldGroup b("train", "");
    b.field("weights", train.weights, "Weights.").range(0, 1);
    b.field("device", train.device, "Device.")
        .one_of({"cpu", "cuda"})
        .alias_switch("use_gpu", "cuda", "cpu");
    FieldGroup c("model", "The model.");
    c.short_form("layers");
    c.field("rate", model.rate, "Rate.").positive();
    c.field("scaling", model.scaling, "Scaling.");
    c.field("layers", model.layers, "Layers.");
    c.unbound("tensor_parallel", "int", Value::of_scalar("1"), "Later.").planned("issue 5");
    c.unbound("num_sm", "int", Value::of_scalar("16"), "SMs.")
        .not_applicable_on(DeviceKind::cpu, "a CPU has no SMs");
    return {a, b, c};
  }
};

struct Loaded {
  Program program;
  Problems problems;
  ConfigOutcome outcome;
};

void load(Loaded& loaded, const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  test::TemporaryFolder folder;
  const auto file = folder / "run.yaml";
  write_file_atomically(file, yaml);
  loaded.outcome = read_config(loaded.program.schema, {file, overrides}, loaded.problems);
  check_states(loaded.program.schema, DeviceKind::cpu, loaded.outcome, loaded.problems);
}

// An old name that was a bool stands for two of the field's values, and takes its values, too.
TEST(ReadConfig, ASwitchStandsForAValue) {
  const auto device_of = [](const std::string& yaml, const std::vector<std::string>& overrides) {
    Loaded l;
    load(l, yaml, overrides);
    EXPECT_THAT(l.problems.all(), testing::IsEmpty());
    return l.program.train.device + " " + to_flow_yaml(l.outcome.given.at("train.device"));
  };
  EXPECT_EQ(device_of("train: {use_gpu: true}", {}), "cuda cuda");
  EXPECT_EQ(device_of("train: {use_gpu: false}", {}), "cpu cpu");
  EXPECT_EQ(device_of("train: {device: cuda}", {"recipe.trainer.use_gpu=False"}), "cpu cpu");
  EXPECT_EQ(device_of("", {"train.use_gpu=cuda"}), "cuda cuda");

  Loaded l;
  load(l, "train: {use_gpu: rocm}");
  EXPECT_THAT(l.problems.all(),
              ElementsAre(AllOf(HasSubstr("train.device (given as train.use_gpu)"),
                                HasSubstr("expected one of cpu|cuda, found 'rocm'"))));
  Loaded by_its_name;
  load(by_its_name, "train: {device: true}");
  EXPECT_THAT(by_its_name.problems.all(),
              ElementsAre(HasSubstr("expected one of cpu|cuda, found 'true'")));
}

TEST(ReadConfig, ABoundMayBeExcluded) {
  double decay = 0.9;
  const auto problem = [&](const std::string& value) {
    FieldGroup group("train", "");
    const Field& field = group.field("decay", decay, "Decay.").from_below(0, 1);
    return field.value_problem(Value::of_scalar(value));
  };
  EXPECT_EQ(problem("0"), "");
  EXPECT_EQ(problem("0.999"), "");
  EXPECT_EQ(problem("1"), "expected >= 0 and < 1, found 1");
}

// Kernels compute in FP32: a number that it does not have would be 0 or infinite there.
TEST(ReadConfig, NumbersAreThoseOfFp32) {
  double rate = 0.1;
  const auto problem = [&](const std::string& value) {
    FieldGroup group("model", "");
    const Field& field = group.field("rate", rate, "Rate.").range(0);
    return field.value_problem(Value::of_scalar(value));
  };
  for (const char* good : {"0", "1e-30", "1e38"}) EXPECT_EQ(problem(good), "") << good;
  for (const char* bad : {"1e-60", "1e-40", "1e39"})
    EXPECT_THAT(problem(bad), HasSubstr("as FP32 has them, found")) << bad;
}

TEST(ReadConfig, ReadsTypesAndOverridesWin) {
  Loaded l;
  load(l,
       "train: {steps: 1e3, seed: 7, fast: true, weights: [0.25, 1]}\n"
       "model: {rate: 2, scaling: {type: yarn, factor: 2}}\n",
       {"train.steps=5", "train.seed=null", "model.scaling.factor=8", "model=3", "train.iters=6"});
  ASSERT_TRUE(l.problems.empty()) << l.problems.all().front();
  EXPECT_EQ(l.program.train.steps, 6);
  EXPECT_EQ(l.program.train.seed, std::nullopt);
  EXPECT_TRUE(l.program.train.fast.value());
  EXPECT_THAT(l.program.train.weights, ElementsAre(0.25, 1));
  EXPECT_EQ(l.program.model.rate, 2);
  EXPECT_EQ(l.program.model.layers, 3);
  EXPECT_EQ(to_flow_yaml(l.program.model.scaling), "{type: yarn, factor: 8}");
  EXPECT_TRUE(l.outcome.is_given("train.steps"));
  EXPECT_FALSE(l.outcome.is_given("train.device"));
}

TEST(ReadConfig, AliasesAndForeignPrefixesResolve) {
  Loaded l;
  load(l, "TrainingConfig: {iters: 3}\nrecipe: {model: {config: {rate: 0.5}}}\n",
       {"TransformerConfig.seed=4"});
  ASSERT_TRUE(l.problems.empty()) << l.problems.all().front();
  EXPECT_EQ(l.program.train.steps, 3);
  EXPECT_EQ(l.program.model.rate, 0.5);
  EXPECT_EQ(l.program.train.seed, 4) << "a field that the guide writes under another class";
}

TEST(ReadConfig, AllProblemsAtOnce) {
  Loaded l;
  load(l,
       "train:\n"
       "  steps: ten\n"
       "  seeed: 3\n"
       "  weights: [0.5, 2]\n"
       "  device: cpuu\n"
       "modle: {rate: 1}\n"
       "model: {rate: 0, tensor_parallel: 2}\n",
       {"train.fast=maybe", "nonsense", "train.rate=1", "train.seed.x=1", "model.layers='"});
  EXPECT_THAT(
      l.problems.all(),
      AllOf(Contains("run.yaml:2: train.steps: expected int, found ten"),
            Contains("run.yaml:3: unknown field 'train.seeed', did you mean 'train.seed'?"),
            Contains("run.yaml:4: train.weights: expected 0 to 1, found 2"),
            Contains(
                "run.yaml:5: train.device: expected one of cpu|cuda, found 'cpuu'; nearest: cpu"),
            Contains("run.yaml:6: unknown section 'modle', did you mean 'model'?"),
            Contains("run.yaml:7: model.rate: expected > 0, found 0"),
            Contains(HasSubstr("model.tensor_parallel=2 is not implemented yet: issue 5")),
            Contains("override 'train.fast=maybe': train.fast: expected bool or auto, found maybe"),
            Contains("override 'nonsense': expected section.field=value")));
  EXPECT_THAT(l.problems.all(),
              AllOf(Contains(HasSubstr("unknown field 'train.rate', did you mean 'model.rate'?")),
                    Contains(HasSubstr("'train.seed.x': train.seed is of type int or null")),
                    Contains(HasSubstr("override 'model.layers=''"))));
  EXPECT_THROW(l.problems.throw_if_any(), ConfigError);
}

TEST(ReadConfig, OverridesNestNoDeeperThanFiles) {
  Loaded l;
  load(l, "",
       {"train..seed=1", ".train.seed=1", "model.map." + std::string(40, '[') + "=1",
        "model.map=" + std::string(31, '[') + "1" + std::string(31, ']')});
  EXPECT_THAT(l.problems.all(),
              AllOf(Contains(HasSubstr("override 'train..seed=1': an empty name between dots")),
                    Contains(HasSubstr("override '.train.seed=1': an empty name between dots")),
                    Contains(HasSubstr("nested deeper than 32 levels"))));
}

TEST(ReadConfig, TheSameFieldTwiceInAFileIsAnError) {
  Loaded l;
  load(l, "train: {steps: 3, iters: 4}\n");
  EXPECT_THAT(l.problems.all(), ElementsAre(HasSubstr("train.steps is given twice")));
}

TEST(ReadConfig, TwoNamesOfAFieldOnTheCommandLineAreAnError) {
  Loaded l;
  load(l, "", {"train.iters=4", "train.steps=8"});
  EXPECT_THAT(
      l.problems.all(),
      ElementsAre(HasSubstr("train.steps is given twice, as train.iters and as train.steps")));
  for (const std::vector<std::string>& same :
       {std::vector<std::string>{"train.steps=4", "train.steps=8"},
        {"train.iters=8", "train.steps=8"},
        {"model=3", "model.layers=8"}}) {
    Loaded fine;
    load(fine, "train: {iters: 5}\n", same);
    EXPECT_TRUE(fine.problems.empty()) << same.front();
  }
}

TEST(ReadConfig, AListOfOneIsSuggested) {
  Loaded l;
  load(l, "", {"train.weights=0.25", "train.steps=[4]"});
  EXPECT_THAT(l.problems.all(), UnorderedElementsAre(HasSubstr("found 0.25, did you mean [0.25]?"),
                                                     testing::Not(HasSubstr("did you mean"))));
}

TEST(ReadConfig, PlannedAtItsDefaultAndNotApplicableAreAccepted) {
  Loaded l;
  load(l, "model: {tensor_parallel: 1, num_sm: 4}\n");
  EXPECT_TRUE(l.problems.empty());
  EXPECT_THAT(l.outcome.notes,
              UnorderedElementsAre(
                  "model.num_sm has no effect on cpu: a CPU has no SMs",
                  "model.tensor_parallel has no effect: it is not implemented yet: issue 5"));
}

TEST(ReadConfig, MissingFilesAndOddRootsAreProblems) {
  Program program;
  Problems problems;
  read_config(program.schema, {"/nonexistent/run.yaml", {}}, problems);
  EXPECT_THAT(problems.all(), ElementsAre(HasSubstr("/nonexistent/run.yaml")));
  Loaded l;
  load(l, "[1, 2]\n");
  EXPECT_THAT(l.problems.all(), ElementsAre(HasSubstr("expected sections")));
}

TEST(ReadConfig, ManyProblemsAreBounded) {
  std::string yaml = "train:\n";
  for (int i = 0; i < 5000; ++i) yaml += "  unknown_name_" + std::to_string(i) + ": 1\n";
  Loaded l;
  load(l, yaml);
  try {
    l.problems.throw_if_any();
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.problems().size(), 101u);
    EXPECT_THAT(error.problems().back(), HasSubstr("4900 more"));
  }
}

TEST(ToYaml, ReadsBackToTheSameConfiguration) {
  Loaded l;
  load(l, "",
       {"train.steps=77", "train.weights=[0.1, 1e-8]", "model.scaling={type: 'yarn: x', 3: [1]}",
        "model.rate=1e-5"});
  ASSERT_TRUE(l.problems.empty()) << l.problems.all().front();
  Loaded again;
  load(again, to_yaml(l.program.schema));
  ASSERT_TRUE(again.problems.empty()) << again.problems.all().front();
  EXPECT_EQ(again.program.train, l.program.train);
  EXPECT_EQ(again.program.model.rate, 1e-5);
  EXPECT_EQ(to_yaml(again.program.schema), to_yaml(l.program.schema));
}

TEST(Schema, TwoOwnersOfOneNameAreRefused) {
  int x = 0;
  FieldGroup a("s", ""), b("s", "");
  a.field("x", x, "");
  b.field("y", x, "").alias("x");
  EXPECT_THROW(Schema({a, b}), ConfigError);
}

TEST(Schema, BareNamesFindEveryField) {
  Program program;
  EXPECT_EQ(program.schema.find_all("steps").size(), 1u);
  EXPECT_EQ(program.schema.find_all("train.steps").front()->name, "steps");
  EXPECT_TRUE(program.schema.find_all("nothing").empty());
  EXPECT_EQ(program.schema.section_of("TrainingConfig"), "train");
}

}  // namespace
}  // namespace viaduct
