#include "collective_timing.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "device/device.h"
#include "mpi_own_call.h"

namespace viaduct::cli {
namespace {

constexpr double kRoundSeconds = 0.02;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Numbers in [1, 2): their sums stay normal numbers, and none is zero.
void fill(const Tensor& tensor, int rank) {
  std::mt19937 random(static_cast<unsigned>(rank));
  std::uniform_real_distribution<float> numbers(1, 2);
  dispatch_floating(tensor.dtype(), [&](auto type) {
    using T = decltype(type);
    for (int64_t i = 0; i < tensor.elements(); ++i)
      tensor.data<T>()[i] = static_cast<T>(numbers(random));
  });
}

/// Memory as in a training run: from the cpu device, in huge pages.
struct Buffers {
  std::unique_ptr<Device> device = make_cpu_device(1);
  Tensor whole, other, part;  // two of all ranks' bytes, and one rank's share
  int64_t share = 0;          // elements
};

/// One call of the operation, with its wait.
std::function<void()> operation(Communicator& group, const std::string& op, const Buffers& b) {
  if (op == "all_reduce") return [&] { group.all_reduce(b.whole, ReduceOp::sum).wait_host(); };
  if (op == "all_gather") return [&] { group.all_gather(b.part, b.whole).wait_host(); };
  if (op == "reduce_scatter") return [&] { group.reduce_scatter(b.whole, b.part).wait_host(); };
  if (op == "broadcast") return [&] { group.broadcast(b.whole, 0).wait_host(); };
  if (op == "barrier") return [&] { group.barrier(); };
  if (op == "all_to_all") {
    const std::vector<int64_t> rows(static_cast<size_t>(group.size()), b.share);
    return [&, rows] { group.all_to_all(b.whole, b.other, rows, rows).wait_host(); };
  }
  VIADUCT_CHECK(CommError, op == "send", "bench: there is no collective {}", op);
  // Around the ring: every rank sends and receives.
  const int n = group.size(), next = (group.rank() + 1) % n, last = (group.rank() + n - 1) % n;
  return [&, next, last] {
    CommHandle sent = group.send(b.whole, next, Flow::activations);
    group.receive(b.other, last, Flow::activations).wait_host();
    sent.wait_host();
  };
}

double bus_factor(const std::string& op, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  if (op == "all_reduce") return 2 * others;
  if (op == "broadcast" || op == "send") return 1;
  return op == "barrier" ? 0 : others;
}

/// Seconds of `calls` calls on the slowest rank.
double timed(Communicator& group, int64_t calls, const std::function<void()>& call) {
  group.barrier();
  const double begin = steady_seconds();
  for (int64_t i = 0; i < calls; ++i) call();
  const Tensor seconds = host_tensor(DType::f64, {1});
  seconds.data<double>()[0] = steady_seconds() - begin;
  group.all_reduce(seconds, ReduceOp::max).wait_host();
  return seconds.data<double>()[0];
}

/// The number of calls that fill a round; the same on all ranks.
int64_t calls_of_a_round(Communicator& group, const std::function<void()>& call) {
  int64_t calls = 1;
  for (double seconds = 0; (seconds = timed(group, calls, call)) < kRoundSeconds / 2;)
    calls = std::max(2 * calls, static_cast<int64_t>(calls * kRoundSeconds / (seconds + 1e-9) / 4));
  return calls;
}

}  // namespace

const std::vector<std::string>& collective_operations() {
  static const std::vector<std::string> names{
      "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send", "barrier"};
  return names;
}

CollectiveTiming time_collective(Communicator& group, const CollectiveProblem& problem) {
  Buffers buffers;
  buffers.share = problem.bytes / dtype_bytes(problem.dtype) / group.size();
  const auto allocate = [&](int64_t elements) {
    return buffers.device->allocate(problem.dtype, {elements}, MemoryTag::other);
  };
  buffers.whole = allocate(buffers.share * group.size());
  buffers.other = allocate(buffers.share * group.size());
  buffers.part = allocate(buffers.share);
  const auto refill = [&] {
    fill(buffers.whole, group.rank());
    fill(buffers.part, group.rank());
  };
  refill();
  const auto call = operation(group, problem.op, buffers);
  const auto rival = problem.against_mpi ? mpi_own_call(group, problem.op, buffers.whole,
                                                        buffers.other, buffers.part)
                                         : nullptr;
  const auto copy_call = [&] {
    if (buffers.whole.bytes() > 0)
      std::memcpy(buffers.other.raw(), buffers.whole.raw(),
                  static_cast<size_t>(buffers.whole.bytes()));
  };
  const int64_t calls = calls_of_a_round(group, call);
  const int64_t copies = calls_of_a_round(group, copy_call);
  std::vector<double> seconds, copy_seconds, rival_seconds{0};
  for (int round = 0; round < problem.rounds; ++round) {
    refill();
    call();
    seconds.push_back(timed(group, calls, call) / static_cast<double>(calls));
    if (rival) {
      if (round == 0) rival_seconds.clear();
      rival();
      rival_seconds.push_back(timed(group, calls, rival) / static_cast<double>(calls));
    }
    copy_seconds.push_back(timed(group, copies, copy_call) / static_cast<double>(copies));
  }
  const double bytes = static_cast<double>(buffers.whole.bytes());
  return {median(seconds) * 1e6,
          bus_factor(problem.op, group.size()) * bytes / median(seconds) * 1e-9,
          bytes * group.size() / median(copy_seconds) * 1e-9, median(rival_seconds) * 1e6};
}

}  // namespace viaduct::cli
