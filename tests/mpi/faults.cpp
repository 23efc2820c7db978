// faults KIND: one rank of a world under mpirun fails in the given way; the others must end too.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/exit_watchdog.h"
#include "comm/mpi/mpi_communicator.h"
#include "comm/mpi/mpi_handle.h"
#include "comm/world.h"

namespace viaduct {
namespace {

Tensor f32(int64_t elements) {
  return host_tensor(DType::f32, {elements});
}

[[noreturn]] void never_come() {
  for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
}

void sum_for_ever(Communicator& group) {
  const Tensor tensor = f32(100000);
  for (;;) group.all_reduce(tensor, ReduceOp::average).wait();
}

/// Exchanges rows by number with all ranks until rank 1 ends with an operation in flight: by an
/// error, or because its process is killed.
void exchange_until_lost(Communicator& world, bool killed) {
  constexpr int64_t kEach = 20000;
  const int64_t rows = kEach * world.size();
  const Tensor order = host_tensor(DType::i32, {rows});
  for (int64_t r = 0; r < rows; ++r) order.data<int32_t>()[r] = static_cast<int32_t>(rows - 1 - r);
  const std::vector<int64_t> each(static_cast<size_t>(world.size()), kEach);
  for (int turn = 0;; ++turn) {
    const Tensor in = f32(rows * 8).view({rows, 8}), out = f32(rows * 8).view({rows, 8});
    CommHandle handle = world.all_to_all(in, out, each, each, {order, order});
    if (world.rank() == 1 && turn == 3) {
      if (killed) std::raise(SIGKILL);
      fail<IoError>("the disk of rank 1 is full");
    }
    handle.wait();
  }
}

/// Rank 0 abandons a large message before rank 1 receives it, and reuses its memory: rank 1 must
/// still get the sent values.
void give_up_a_message(Communicator& world) {
  constexpr int64_t kBytes = int64_t{8} << 20;
  constexpr int kTag = 20000;  // above the tags of operations
  const auto bytes = static_cast<size_t>(kBytes);
  with_mpi_group(world, [&](const MpiGroup& group) {
    Transfers transfers(group);
    if (world.rank() == 0) {
      std::vector<char> memory(bytes, 'a');
      transfers.send(memory.data(), kBytes, 1, kTag);
      transfers.give_up(30);
      std::fill(memory.begin(), memory.end(), 'b');
    } else if (world.rank() == 1) {
      // By then rank 0 has abandoned it.
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      std::vector<char> memory(bytes);
      transfers.receive(memory.data(), kBytes, 0, kTag);
      while (!transfers.under_way().empty()) transfers.poll([](const Transfer&) {});
      VIADUCT_CHECK(Error, memory == std::vector<char>(bytes, 'a'),
                    "the memory of a message was let go of before it had left");
    }
  });
  world.barrier();
}

/// Rank 1 fails while rank 0 waits for something else than MPI, as for a GPU: its watchdog hears of
/// the failure all the same. A file says that it has.
void tell_a_watchdog(Communicator& world) {
  const std::filesystem::path told =
      std::filesystem::temp_directory_path() / ("viaduct_faults_" + std::to_string(::getppid()));
  const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); };
  if (world.rank() == 1) {
    world.fail_all("the disk of rank 1 is full");
    while (!std::filesystem::exists(told)) pause();
    std::filesystem::remove(told);
    fail<IoError>("another problem");
  }
  if (world.rank() == 0) {
    std::thread watchdog([&] {
      while (world.failure().empty()) pause();
      fmt::print(stderr, "rank 0 is told: {}\n", world.failure());
      std::ofstream(told).put('1');
    });
    watchdog.join();
  }
  never_come();
}

/// Rank 1 fails while the others are in a collective: all leave it, and meet anew for a last sum.
void meet_again(Communicator& world) {
  try {
    const Tensor tensor = f32(100000);
    if (world.rank() == 1) {
      CommHandle handle = world.all_reduce(tensor, ReduceOp::sum);
      fail<IoError>("the disk of rank 1 is full");
    }
    sum_for_ever(world);
  } catch (const std::exception& error) {
    world.fail_all(error.what());
    double ranks = 0;
    try {
      ranks = world.reconnect(20)->host().sum(1);
    } catch (const std::exception& second) {
      fmt::print(stderr, "faults: error: {}\n", second.what());
    }
    if (ranks != world.size()) fmt::print(stderr, "faults: error: {} ranks have met\n", ranks);
    throw;
  }
}

void fail_as(const std::string& kind, Communicator& world) {
  const int rank = world.rank();
  const auto pair = rank == 0 ? nullptr : world.split({1, 2}, "pair");
  world.all_reduce(f32(100000), ReduceOp::sum).wait();
  if (kind == "throw") {  // while the others are in a collective, and one is in flight here
    const Tensor tensor = f32(100000);
    CommHandle handle;
    if (rank == 1) {
      handle = pair->all_reduce(tensor, ReduceOp::sum);
      fail<IoError>("the disk of rank 1 is full");
    }
    sum_for_ever(world);
  } else if (kind == "meet_again") {
    meet_again(world);
  } else if (kind == "watchdog") {
    tell_a_watchdog(world);
  } else if (kind == "given_up") {
    give_up_a_message(world);
  } else if (kind == "throw_all") {
    throw ConfigError(std::vector<std::string>{"one problem", "another problem"});
  } else if (kind == "kill") {
    if (rank == 1) std::raise(SIGKILL);
    sum_for_ever(world);
  } else if (kind == "exchange" || kind == "exchange_kill") {
    exchange_until_lost(world, kind == "exchange_kill");
  } else if (kind == "absent") {  // from a group with other rank numbers
    if (rank == 1) pair->all_reduce(f32(100000), ReduceOp::sum).wait();
    never_come();
  } else if (kind == "other") {  // ranks call different collectives
    if (rank == 0) world.barrier();
    world.all_reduce(f32(8), ReduceOp::sum).wait();
  } else if (kind == "late") {  // after the others have ended
    pair == nullptr ? void() : pair->barrier();
    if (rank == 1) fail<IoError>("the disk of rank 1 is full");
  } else if (kind == "stop") {  // the rank to which the others report
    if (rank == 0) std::raise(SIGSTOP);
    sum_for_ever(world);
  } else if (kind == "finalize") {  // only rank 0 reaches the end of MPI
    world.barrier();
  } else if (kind == "split") {
    if (rank == 1) never_come();
    world.split({0, 1, 2}, "again");
  } else if (kind == "size") {
    if (rank == 0) never_come();
    pair->all_gather(f32(8 * rank), f32(16 * rank)).wait();
    never_come();
  } else if (kind == "message") {
    if (rank != 0) never_come();
    const Tensor tensor = f32(8);
    CommHandle handle = world.receive(tensor, 2, Flow::activations);
    while (!handle.ready()) {
    }
  }
}

}  // namespace
}  // namespace viaduct

namespace {
bool stop_in_finalize = false;
}

/// MPI's profiling interface: replaces the library's function.
extern "C" int MPI_Finalize() {
  if (stop_in_finalize) {
    viaduct::let_process_live();  // the launcher may continue a stopped rank before it ends it
    std::raise(SIGSTOP);
  }
  return PMPI_Finalize();
}

int main(int count, char** arguments) {
  // At the end of MPI, after all of the project's code.
  if (count > 1 && std::string(arguments[1]) == "finalize") {
    const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
    stop_in_finalize = rank != nullptr && std::string(rank) != "0";
  }
  const std::string kind = count > 1 ? arguments[1] : "";
  const double timeout_seconds = count > 2 ? std::stod(arguments[2]) : 60;
  try {
    viaduct::run_mpi_rank(
        {.timeout_seconds = timeout_seconds, .exit_grace_seconds = 2},
        [&](std::shared_ptr<viaduct::Communicator> world) { viaduct::fail_as(kind, *world); });
  } catch (const viaduct::ConfigError& error) {
    for (const std::string& problem : error.problems())
      fmt::print(stderr, "faults: error: {}\n", problem);
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "faults: error: {}\n", error.what());
    return 1;
  }
  return 0;
}
