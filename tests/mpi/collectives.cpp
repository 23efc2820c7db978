// collectives: a rank of a world under mpirun goes through all collectives (collective_exercise.h).

#include <fmt/format.h>

#include <exception>

#include "comm/world.h"
#include "support/collective_exercise.h"

int main() {
  using namespace viaduct;
  try {
    run_mpi_rank({60}, [](std::shared_ptr<Communicator> world) {
      test::exercise(world);
      if (world->rank() == 0) fmt::print("{} ranks agree with plain loops\n", world->size());
    });
  } catch (const std::exception& error) {
    fmt::print(stderr, "collectives: error: {}\n", error.what());
    return 1;
  }
  return 0;
}
