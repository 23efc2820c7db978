// The schedules in a checkpoint, and those of the resumed run.

#include "train/resume_schedules.h"

#include <gmock/gmock.h>

#include "base/error.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

Schedules some_schedules() {
  Schedules s;
  s.learning_rate = {
      DecayStyle::warmup_stable_decay, AnnealStyle::minus_sqrt, 0.1, 1e-5, 1e-7, 3, 40, 7};
  s.weight_decay = {DecayGrowth::cosine, 0.01, 0.1, 50};
  return s;
}

SchedulerConfig config(bool override_stored, bool use_stored) {
  SchedulerConfig config;
  config.override_opt_param_scheduler = override_stored;
  config.use_checkpoint_opt_param_scheduler = use_stored;
  return config;
}

TEST(ResumeSchedules, ComeBackAsTheyWereStored) {
  const std::string state = with_schedules(R"({"step":4})", some_schedules());
  EXPECT_THAT(state, HasSubstr("\"step\":4"));
  EXPECT_EQ(stored_schedules(state, "here"), some_schedules());
  EXPECT_EQ(stored_schedules(R"({"step":4})", "here"), std::nullopt);
}

TEST(ResumeSchedules, RatesOfTheVocabularyBelongToThem) {
  Schedules own = some_schedules();
  own.decoupled_rate = own.learning_rate;
  own.decoupled_rate->maximum_rate = 0.3, own.decoupled_rate->minimum_rate = 1e-3;
  EXPECT_EQ(stored_schedules(with_schedules("{}", own), "here"), own);
  Schedules other = own;
  other.decoupled_rate->maximum_rate = 0.4;
  EXPECT_THAT([&] { resume_schedules(other, own, config(false, false), "FOLDER"); },
              ThrowsMessage<ConfigError>(HasSubstr("optimizer.decoupled_lr: 0.3 there, 0.4 here")));
  EXPECT_EQ(resume_schedules(other, own, config(false, true), "FOLDER"), own);
  EXPECT_THAT([&] { resume_schedules(some_schedules(), own, config(false, true), "FOLDER"); },
              ThrowsMessage<ConfigError>(HasSubstr("has an optimizer.decoupled_lr")));
}

TEST(ResumeSchedules, DamagedOnesAreErrors) {
  const auto with = [](const char* from, const char* to) {
    std::string state = with_schedules("{}", some_schedules());
    state.replace(state.find(from), std::string(from).size(), to);
    return [state] { stored_schedules(state, "here"); };
  };
  EXPECT_THAT(with("minus_sqrt", "no_style"), ThrowsMessage<IoError>(HasSubstr("here")));
  EXPECT_THAT(with("\"maximum_rate\":0.1", "\"maximum_rate\":\"x\""),
              ThrowsMessage<IoError>(HasSubstr("damaged")));
  EXPECT_THAT(with("\"maximum_rate\":0.1", "\"maximum_rate\":-1"),
              ThrowsMessage<IoError>(HasSubstr("its schedules are invalid")));
  EXPECT_THAT(with("\"maximum_rate\"", "\"rate\""), ThrowsMessage<IoError>(HasSubstr("damaged")));
}

TEST(ResumeSchedules, EachDifferenceIsNamed) {
  Schedules now = some_schedules();
  now.learning_rate.style = DecayStyle::linear;
  now.weight_decay.end = 0.2;
  EXPECT_THAT([&] { resume_schedules(now, some_schedules(), config(false, false), "FOLDER"); },
              ThrowsMessage<ConfigError>(
                  AllOf(HasSubstr("scheduler.lr_decay_style: WSD there, linear here (FOLDER)"),
                        HasSubstr("scheduler.end_weight_decay: 0.1 there, 0.2 here"))));
  EXPECT_EQ(resume_schedules(now, some_schedules(), config(true, false), "FOLDER"), now);
  EXPECT_EQ(resume_schedules(now, some_schedules(), config(false, true), "FOLDER"),
            some_schedules());
}

TEST(ResumeSchedules, WithoutStoredOnesTheConfigurationHasToDecide) {
  const Schedules now = some_schedules();
  EXPECT_EQ(resume_schedules(now, std::nullopt, config(true, false), "FOLDER"), now);
  for (const bool use : {false, true}) {
    EXPECT_THAT([&] { resume_schedules(now, std::nullopt, config(false, use), "FOLDER"); },
                ThrowsMessage<ConfigError>(HasSubstr("by an earlier version")));
  }
}

// With another style the last stretch of WSD has no effect, however long it is.
TEST(ResumeSchedules, ALastStretchWithoutWsdMayBeLongerThanTheDecay) {
  Schedules schedules = some_schedules();
  schedules.learning_rate.style = DecayStyle::cosine;
  schedules.learning_rate.anneal_samples = 3 * schedules.learning_rate.decay_samples;
  EXPECT_EQ(stored_schedules(with_schedules("{}", schedules), "here"), schedules);
  schedules.learning_rate.style = DecayStyle::warmup_stable_decay;
  EXPECT_THROW(stored_schedules(with_schedules("{}", schedules), "here"), IoError);
}

}  // namespace
}  // namespace viaduct
