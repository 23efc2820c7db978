// collectives: a rank of a world under mpirun runs all collectives (collective_exercise.h).
// collectives large: a message of more bytes than MPI sends at once. collectives many: dozens of
// ranks, with the algorithms of large groups; counts what a rank sends and keeps. collectives
// progress: operations in flight progress while no rank calls anything.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "comm/mpi/mpi_communicator.h"
#include "comm/world.h"
#include "support/collective_exercise.h"
#include "support/record_exercise.h"

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

/// Ranks only read memory, as kernels do, until the next rank's data has arrived.
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

/// Number of messages that this rank sends in `work`.
template <class F>
int64_t messages(Communicator& world, F work) {
  world.barrier();
  const int64_t before = mpi_traffic(world).messages;
  work();
  return mpi_traffic(world).messages - before;
}

/// No rank sends to all others: the number of messages grows at most with log2 of the ranks.
void count_messages(Communicator& world) {
  const int n = world.size();
  int64_t rounds = 0;
  while (1 << rounds < n) ++rounds;
  const auto expect = [&](const char* what, int64_t most, auto&& work) {
    const int64_t sent = messages(world, work);
    VIADUCT_CHECK(CommError, sent <= most, "{} of {} ranks: rank {} sent {} messages, expected {}",
                  what, n, world.rank(), sent, most);
  };
  const Tensor small = host_tensor(DType::f32, {100}), exact = host_tensor(DType::i64, {160}),
               large = host_tensor(DType::f32, {n * 2000}), own = host_tensor(DType::f32, {2000});
  const int64_t chunks = (large.bytes() + (256 << 10) - 1) / (256 << 10);
  for (const Tensor& tensor : {small, exact, large, own})
    std::fill_n(static_cast<std::byte*>(tensor.raw()), tensor.bytes(), std::byte{0});
  expect("a barrier", rounds, [&] { world.barrier(); });
  expect("a small all-reduce", 2 * rounds, [&] { world.all_reduce(small, ReduceOp::sum).wait(); });
  expect("an exact all-reduce", rounds + 1, [&] { world.all_reduce(exact, ReduceOp::sum).wait(); });
  expect("a large all-reduce", 2 * chunks, [&] { world.all_reduce(large, ReduceOp::sum).wait(); });
  expect("a reduce-scatter", 2 * chunks, [&] { world.reduce_scatter(large, own).wait(); });
  expect("an all-gather", 2 * rounds, [&] { world.all_gather(own, large).wait(); });
  expect("a broadcast", rounds, [&] { world.broadcast(own, n - 1).wait(); });
  expect("figures", rounds + 1, [&] { world.host().sum(1); });
  expect("a long text", 2 * rounds, [&] { world.host().text_of_rank_0(std::string(5000, 'x')); });
  const int64_t scratch = mpi_traffic(world).scratch_bytes;
  VIADUCT_CHECK(CommError, scratch <= 4 << 20, "rank {} keeps {} bytes for sums", world.rank(),
                scratch);
}

void of_many(const std::shared_ptr<Communicator>& world) {
  test::exercise_large(*world);
  test::exercise_hosts(world->host());
  count_messages(*world);
  // A part that is large as well, and one that is not.
  const int border = world->size() - 5;
  std::vector<int> members;
  const bool low = world->rank() < border;
  for (int rank = low ? 0 : border; rank < (low ? border : world->size()); ++rank)
    members.push_back(rank);
  const auto part = world->split(members, low ? "low" : "high");
  test::exercise_large(*part);
  test::exercise_hosts(part->host());
  world->barrier();
  if (world->rank() == 0) fmt::print("{} ranks agree with plain loops\n", world->size());
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
    if (count > 1 && std::string_view(arguments[1]) == "many") {
      run_mpi_rank({120}, [](std::shared_ptr<Communicator> world) { of_many(world); });
      return 0;
    }
    if (count > 1) {
      run_mpi_rank({60}, [](std::shared_ptr<Communicator> world) { send_large(*world); });
      return 0;
    }
    run_mpi_rank({60}, [](std::shared_ptr<Communicator> world) {
      test::exercise(world);
      test::exercise_records(world);
      if (world->rank() == 0) fmt::print("{} ranks agree with plain loops\n", world->size());
    });
  } catch (const std::exception& error) {
    fmt::print(stderr, "collectives: error: {}\n", error.what());
    return 1;
  }
  return 0;
}
