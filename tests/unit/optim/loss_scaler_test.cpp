#include "optim/loss_scaler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <string_view>

#include "base/error.h"

namespace viaduct {
namespace {

/// Runs a script: 'o' is an overflow, '.' a clean step.
LossScalerState play(const LossScaler& scaler, LossScalerState state, std::string_view script) {
  for (char step : script) state = scaler.next(state, step == 'o');
  return state;
}

LossScalerSettings small() {
  LossScalerSettings s;
  s.initial_scale = 1024, s.minimum_scale = 1, s.window = 4, s.hysteresis = 2;
  return s;
}

TEST(LossScaler, DefaultsAreMegatrons) {
  const LossScaler scaler({});
  EXPECT_EQ(scaler.initial_state(), (LossScalerState{4294967296.0, 0, 2}));
  auto state = scaler.initial_state();
  for (int i = 0; i < 999; ++i) state = scaler.next(state, false);
  EXPECT_EQ(state.scale, 0x1p32);
  EXPECT_EQ(scaler.next(state, false).scale, 0x1p33);
}

TEST(LossScaler, DoublesAfterAWindowOfCleanStepsInARow) {
  const LossScaler scaler(small());
  const auto start = scaler.initial_state();
  EXPECT_EQ(play(scaler, start, "...").scale, 1024);
  EXPECT_EQ(play(scaler, start, "....").scale, 2048);
  EXPECT_EQ(play(scaler, start, "........").scale, 4096);
  EXPECT_EQ(play(scaler, start, "...o...").scale, 1024);  // the overflow restarts the window
  EXPECT_EQ(play(scaler, start, "...o....").scale, 2048);
}

TEST(LossScaler, HysteresisDelaysTheFirstHalvingUntilGrowthRestoresIt) {
  const LossScaler scaler(small());
  const auto start = scaler.initial_state();
  EXPECT_EQ(play(scaler, start, "o").scale, 1024);
  EXPECT_EQ(play(scaler, start, "oo").scale, 512);
  EXPECT_EQ(play(scaler, start, "o.o").scale,
            512);  // clean steps short of a window restore nothing
  EXPECT_EQ(play(scaler, start, "ooo").scale, 256);  // once used up, every overflow halves
  EXPECT_EQ(play(scaler, start, "oo....").scale, 1024);
  EXPECT_EQ(play(scaler, start, "oo....o").scale, 1024);  // restored by growth
  EXPECT_EQ(play(scaler, start, "oo....oo").scale, 512);
}

TEST(LossScaler, StaysBetweenMinimumAndTheFloatRange) {
  const LossScaler scaler(small());
  EXPECT_EQ(play(scaler, scaler.initial_state(), std::string(100, 'o')).scale, 1);
  EXPECT_EQ(play(scaler, scaler.initial_state(), std::string(4000, '.')).scale, 0x1p127);
}

TEST(LossScaler, IsAPureFunctionOfItsState) {
  const LossScaler scaler(small());
  const std::string_view script = "..o....o.oo......o....";
  const auto whole = play(scaler, scaler.initial_state(), script);
  for (size_t cut = 0; cut < script.size(); ++cut) {
    const LossScalerState saved = play(scaler, scaler.initial_state(), script.substr(0, cut));
    scaler.check(saved);
    EXPECT_EQ(play(LossScaler(small()), saved, script.substr(cut)), whole);
  }
}

TEST(LossScaler, ConstantScaleNeverMoves) {
  auto s = small();
  s.constant_scale = 128;
  const LossScaler scaler(s);
  EXPECT_EQ(play(scaler, scaler.initial_state(), "oooo......").scale, 128);
}

TEST(LossScaler, RefusesBadSettingsAndStoredStates) {
  LossScalerSettings s;
  s.initial_scale = 0, s.window = 0, s.hysteresis = 0, s.constant_scale = -1;
  try {
    LossScaler scaler(s);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.problems().size(), 5u);
  }
  const LossScaler scaler({});
  EXPECT_THROW(scaler.check({INFINITY, 0, 0}), IoError);
  EXPECT_THROW(scaler.check({NAN, 0, 0}), IoError);
  EXPECT_THROW(scaler.check({0, 0, 0}), IoError);
  EXPECT_THROW(scaler.check({1, -1, 0}), IoError);
}

}  // namespace
}  // namespace viaduct
