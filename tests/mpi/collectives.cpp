// collectives: a rank of a world under mpirun goes through all collectives (collective_exercise.h).
// collectives large: a message of more bytes than MPI takes at once.
// collectives progress: what is under way gets on while no rank calls anything.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <string_view>
#include <thread>

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

/// Ranks look at memory alone, as kernels do, until what the next rank sent is there.
void move_by_itself(Communicator& world) {
  constexpr int64_t kElements = 1 << 20;
  const Tensor mine = host_tensor(DType::f32, {kElements}),
               all = host_tensor(DType::f32, {kElements * world.size()});
  std::fill_n(mine.data<float>(), kElements, 1.0f + static_cast<float>(world.rank()));
  const int next = (world.rank() + 1) % world.size();
  CommHandle gather = world.all_gather(mine, all);
  const std::atomic_ref<float> last(all.data<float>()[kElements * (next + 1) - 1]);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (last.load() == 0 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  VIADUCT_CHECK(CommError, last.load() == 1.0f + static_cast<float>(next),
                "all_gather: nothing came from rank {} while nobody waited", next);
  gather.wait();
}

}  // namespace
}  // namespace viaduct

int main(int count, char** arguments) {
  using namespace viaduct;
  try {
    if (count > 1 && std::string_view(arguments[1]) == "progress") {
      run_mpi_rank({60}, [](std::shared_ptr<Communicator> world) { move_by_itself(*world); });
      return 0;
    }
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
