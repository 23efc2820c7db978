// Ranks that are threads run the same exercises as ranks under mpirun (tests/mpi).

#include <gtest/gtest.h>

#include "comm/world.h"
#include "support/collective_exercise.h"
#include "support/record_exercise.h"

namespace viaduct::test {
namespace {

TEST(ThreadExercise, AgreesWithPlainLoops) {
  run_thread_ranks(3, {.timeout_seconds = 60},
                   [](const std::shared_ptr<Communicator>& world) { exercise(world); });
}

TEST(ThreadExercise, RecordsAgree) {
  run_thread_ranks(5, {.timeout_seconds = 60},
                   [](const std::shared_ptr<Communicator>& world) { exercise_records(world); });
}

}  // namespace
}  // namespace viaduct::test
