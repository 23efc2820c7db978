// collectives: a rank of a world under mpirun goes through all collectives (collective_exercise.h).
// collectives large: a message of more bytes than MPI takes at once.

#include <fmt/format.h>

#include <exception>

#include "base/error.h"
#include "comm/world.h"
#include "support/collective_exercise.h"

namespace viaduct {
namespace {

void send_large(Communicator& world) {
  constexpr int64_t kElements = (int64_t{1} << 30) + 12345;
  const Tensor tensor = host_tensor(DType::u8, {kElements});
  auto* data = static_cast<uint8_t*>(tensor.raw());
  const auto value = [](int64_t i) { return static_cast<uint8_t>(i ^ (i >> 11) ^ (i >> 23)); };
  if (world.rank() == 1) {
    for (int64_t i = 0; i < kElements; ++i) data[i] = value(i);
    return world.send(tensor, 0, Flow::activations).wait();
  }
  world.receive(tensor, 1, Flow::activations).wait();
  for (int64_t i = 0; i < kElements; ++i)
    VIADUCT_CHECK(CommError, data[i] == value(i), "byte {} of a large message differs", i);
}

}  // namespace
}  // namespace viaduct

int main(int count, char**) {
  using namespace viaduct;
  try {
    if (count > 1) {
      run_mpi_rank({60}, [](std::shared_ptr<Communicator> world) { send_large(*world); });
      return 0;
    }
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
