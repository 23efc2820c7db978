// Delayed scaling on the emulator: op_machine.cpp compares each launch with the cpu's.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/op_testing.h"

namespace viaduct::test {
namespace {

TEST(AmaxHistory, StepsNoteAndChooseAsOnTheCpu) {
  constexpr int64_t kTensors = 300, kSteps = 5;
  for (const bool most_recent : {true, false}) {
    for (const int64_t margin : {0, 3}) {
      OpMachine machine(CpuIsa::portable, 1, {cpu::add_amax_history});
      OpContext context = machine.context();
      const Tensor noted = magnitudes(random_tensor(DType::f32, {kTensors}, 1));
      const ChooseAmaxArgs args{converted(noted, DType::f32),
                                random_tensor(DType::f32, {kTensors, kSteps}, 2),
                                random_tensor(DType::f32, {kTensors}, 3), most_recent, margin};
      set_element(args.noted, 7, std::numeric_limits<double>::infinity());
      set_element(args.noted, 8, 0);
      const double before = element(args.chosen, 8), first = element(args.noted, 0);
      choose_amax(context, args);
      EXPECT_EQ(element(args.history, 0), first);
      EXPECT_EQ(element(args.history, 7 * kSteps), 0);
      EXPECT_EQ(element(args.noted, 0), 0);
      if (most_recent) {
        EXPECT_EQ(element(args.chosen, 0), std::ldexp(first, static_cast<int>(margin)));
        EXPECT_EQ(element(args.chosen, 8), before) << "a magnitude of 0 keeps the scale";
      }
      const Tensor out = host_tensor(DType::f32, {1});
      const NoteAmaxArgs note{args.history.slice(0, 0, 1).view({kSteps}).slice(0, 0, 1),
                              args.noted.slice(0, 0, 1), args.chosen.slice(0, 0, 1), out};
      note_amax(context, note);
      EXPECT_EQ(element(args.noted, 0), first);
      EXPECT_EQ(element(out, 0), element(args.chosen, 0));
    }
  }
}

}  // namespace
}  // namespace viaduct::test
