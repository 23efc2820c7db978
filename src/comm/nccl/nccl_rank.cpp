#include "comm/nccl/nccl_rank.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/gpu_facts.h"

namespace viaduct {
namespace {

constexpr auto kWatchInterval = std::chrono::milliseconds(50);
/// Polls before the host sleeps between them: an operation is in its stream soon, other ranks may
/// take long to join.
constexpr int kQuickPolls = 2000;
constexpr auto kPollInterval = std::chrono::milliseconds(1);

}  // namespace

NcclRank::NcclRank(std::shared_ptr<Communicator> hosts, double timeout_seconds,
                   const NcclRankOptions& options)
    : calls_(nccl_calls()),
      hosts_(std::move(hosts)),
      timeout_seconds_(timeout_seconds),
      options_(options),
      gpu_(gpu_of_thread().ordinal),
      share_(options.multiprocessors ? std::optional(1) : std::nullopt),
      thread_([this] { watch(); }) {}

NcclRank::~NcclRank() {
  {
    const Lock lock(mutex_);
    ends_ = true;
  }
  woken_.notify_one();
  thread_.join();
  // All members make their connections in one order, and end them in that order. Where ranks do not
  // end together, ending would wait for those that have failed.
  const bool failed =
      !cause_.empty() || std::uncaught_exceptions() > 0 || !hosts_->failure().empty();
  for (const auto& connection : connections_) {
    for (const NcclConnection::Flight& flight : connection->flights_)
      static_cast<void>(cudaEventDestroy(flight.done));
    if (connection->handle_ == nullptr) continue;
    if (failed)
      calls_.ncclCommAbort(connection->handle_);
    else
      calls_.ncclCommDestroy(connection->handle_);
  }
  for (CUevent_st* event : events_) static_cast<void>(cudaEventDestroy(event));
}

void NcclRank::check_locked() const {
  if (!cause_.empty()) throw CommError(cause_);
}

void NcclRank::check() const {
  const Lock lock(mutex_);
  check_locked();
}

void NcclRank::check_call(ncclResult_t result, NcclConnection* on, std::string_view call) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  const char* more = on != nullptr ? calls_.ncclGetLastError(on->handle_) : "";
  fail<CommError>("{}: NCCL: {}{}{}", call, calls_.ncclGetErrorString(result),
                  more != nullptr && *more != 0 ? ": " : "", more != nullptr ? more : "");
}

void NcclRank::settle(Lock& lock, NcclConnection& on, std::string_view what) {
  const double begin = steady_seconds();
  for (int polls = 0;; ++polls) {
    check_locked();
    ncclResult_t state = ncclSuccess;
    check_call(calls_.ncclCommGetAsyncError(on.handle_, &state), &on, what);
    check_call(state, &on, what);
    if (state == ncclSuccess) return;
    VIADUCT_CHECK(CommError, steady_seconds() - begin < timeout_seconds_,
                  "{}: not all ranks joined within {:g} s (dist.distributed_timeout_minutes)", what,
                  timeout_seconds_);
    lock.unlock();
    if (polls < kQuickPolls)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(kPollInterval);
    lock.lock();
  }
}

ncclUniqueId NcclRank::unique_id() {
  const Lock lock(mutex_);
  ncclUniqueId id;
  check_call(calls_.ncclGetUniqueId(&id), nullptr, "a unique id");
  return id;
}

void NcclRank::share_out(FunctionRef<int64_t()> connections) {
  if (!options_.multiprocessors) return;
  const int bound = *options_.multiprocessors, most = facts_of_gpu().multiprocessors;
  VIADUCT_CHECK(ConfigError, bound <= most,
                "dist.nccl_multiprocessors: {}, and the GPU has {}; expected at most {}", bound,
                most, most);
  const int64_t count = std::max<int64_t>(1, connections());
  VIADUCT_CHECK(
      ConfigError, bound > count,
      "dist.nccl_multiprocessors: {} for {} connections of NCCL, each of which takes one; "
      "expected at least {}, or null",
      bound, count + 1, count + 1);
  const Lock lock(mutex_);
  share_ = static_cast<int>((bound - 1) / count);
}

NcclConnection& NcclRank::connect(const ncclUniqueId& id, int rank, int size, std::string name,
                                  const NcclGroupOptions& options) {
  Lock lock(mutex_);
  check_locked();
  NcclConnection& made = *connections_.emplace_back(std::make_unique<NcclConnection>());
  made.name_ = std::move(name);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  // A rank that never joins must not block the host, unless that is asked for.
  config.blocking = options_.blocking ? 1 : 0;
  if (share_) {
    const int asked = std::max(options.min_ctas.value_or(0), options.max_ctas.value_or(0));
    VIADUCT_CHECK(ConfigError, asked <= *share_,
                  "dist.nccl_multiprocessors: {}'s share is {} of {}, and {} are asked for "
                  "(min_ctas, max_ctas, comm_overlap.num_sm); expected at most {} of them, or more "
                  "in all",
                  made.name_, *share_, *options_.multiprocessors, asked, *share_);
    config.maxCTAs = *share_;
  }
  if (options.min_ctas) config.minCTAs = *options.min_ctas;
  if (options.max_ctas) config.maxCTAs = *options.max_ctas;
  if (options.cga_cluster_size) config.cgaClusterSize = *options.cga_cluster_size;
  if (!options.net_name.empty()) config.netName = options.net_name.c_str();
  if (options.in_switches) config.collnetEnable = 1;
  if (options.without_ctas) config.CTAPolicy = NCCL_CTA_POLICY_ZERO;
  made.registers_ = options.registers_memory;
  const std::string what = "connecting " + made.name_;
  check_call(calls_.ncclCommInitRankConfig(&made.handle_, size, id, rank, &config), &made, what);
  settle(lock, made, what);
  return made;
}

bool NcclRank::wants_memory(const NcclConnection& on) const {
  const Lock lock(mutex_);
  return on.registers_;
}

MemoryRegistration NcclRank::register_memory(NcclConnection& on, std::pair<void*, int64_t> memory,
                                             bool symmetric) {
  Lock lock(mutex_);
  check_locked();
  on.registers_ = false;
  VIADUCT_CHECK(CommError, memory.second > 0,
                "{}: ddp.nccl_ub = true, and this run's memory is not planned: there is none to "
                "register",
                on.name_);
  const std::string what = fmt::format("registering {} bytes with {}", memory.second, on.name_);
  const auto bytes = static_cast<size_t>(memory.second);
  if (symmetric) {
    const ncclResult_t result = calls_.ncclCommWindowRegister(on.handle_, memory.first, bytes,
                                                              &on.window_, NCCL_WIN_COLL_SYMMETRIC);
    check_call(result, &on, what);
    if (result == ncclInProgress) settle(lock, on, what);
    if (on.window_ != nullptr) return MemoryRegistration::symmetric;
  }
  check_call(calls_.ncclCommRegister(on.handle_, memory.first, bytes, &on.registration_), &on,
             what);
  return on.registration_ != nullptr ? MemoryRegistration::registered : MemoryRegistration::ignored;
}

void NcclRank::deregister(NcclConnection& on) {
  const Lock lock(mutex_);
  if (on.handle_ == nullptr) return;
  if (on.window_ != nullptr)
    static_cast<void>(calls_.ncclCommWindowDeregister(on.handle_, on.window_));
  else if (on.registration_ != nullptr)
    static_cast<void>(calls_.ncclCommDeregister(on.handle_, on.registration_));
}

CUevent_st* NcclRank::event() {
  if (!events_.empty()) {
    CUevent_st* const found = events_.back();
    events_.pop_back();
    return found;
  }
  CUevent_st* made = nullptr;
  check_cuda(cudaEventCreateWithFlags(&made, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  return made;
}

void NcclRank::call(Lock& lock, NcclConnection& on, const std::string& what,
                    FunctionRef<ncclResult_t(const NcclCalls&, ncclComm_t)> f) {
  check_call(calls_.ncclGroupStart(), &on, what);
  ncclResult_t called = ncclSuccess;
  try {
    called = f(calls_, on.handle_);
  } catch (...) {
    static_cast<void>(calls_.ncclGroupEnd());
    throw;
  }
  const ncclResult_t ended = calls_.ncclGroupEnd();
  check_call(called, &on, what);
  check_call(ended, &on, what);
  // Before that, work for the stream might get ahead of the operation.
  if (ended == ncclInProgress) settle(lock, on, what);
}

int64_t NcclRank::watch_work(NcclConnection& on, CUstream_st* stream, std::string what) {
  NcclConnection::Flight flight{++on.tickets_, event(), steady_seconds(), std::move(what)};
  check_cuda(cudaEventRecord(flight.done, stream), "cudaEventRecord");
  on.flights_.push_back(std::move(flight));
  return on.tickets_;
}

int64_t NcclRank::run(NcclConnection& on, CUstream_st* stream, std::string what,
                      FunctionRef<ncclResult_t(const NcclCalls&, ncclComm_t)> f) {
  Lock lock(mutex_);
  check_locked();
  retire(on);
  call(lock, on, what, f);
  return watch_work(on, stream, std::move(what));
}

bool NcclRank::capture(NcclConnection& on, int64_t capture, const std::string& what,
                       FunctionRef<ncclResult_t(const NcclCalls&, ncclComm_t)> f) {
  Lock lock(mutex_);
  check_locked();
  call(lock, on, what, f);
  return std::exchange(on.capture_, capture) != capture;
}

void NcclRank::launched(NcclConnection& on, CUstream_st* stream, std::string what) {
  const Lock lock(mutex_);
  check_locked();
  retire(on);
  watch_work(on, stream, std::move(what));
}

void NcclRank::retire(NcclConnection& on) {
  while (!on.flights_.empty()) {
    const cudaError_t error = cudaEventQuery(on.flights_.front().done);
    if (error == cudaErrorNotReady) return;
    events_.push_back(on.flights_.front().done);
    on.flights_.pop_front();
    check_cuda(error, "cudaEventQuery");
  }
}

bool NcclRank::over(NcclConnection& on, int64_t ticket) {
  const Lock lock(mutex_);
  check_locked();
  retire(on);
  return on.flights_.empty() || on.flights_.front().ticket > ticket;
}

std::string NcclRank::problem() {
  if (std::string failure = hosts_->failure(); !failure.empty()) return failure;
  const double now = steady_seconds();
  for (const auto& connection : connections_) {
    if (connection->handle_ == nullptr) continue;
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = calls_.ncclCommGetAsyncError(connection->handle_, &state);
    check_call(asked, connection.get(), connection->name_);
    check_call(state, connection.get(), connection->name_);
    retire(*connection);
    if (connection->flights_.empty()) continue;
    const NcclConnection::Flight& oldest = connection->flights_.front();
    if (now - oldest.begun > timeout_seconds_)
      return fmt::format(
          "{} on rank {}: not complete after {:g} s (dist.distributed_timeout_minutes): a rank of "
          "{} did not join, or the GPU has not reached it",
          oldest.what, hosts_->rank(), timeout_seconds_, connection->name_);
  }
  return {};
}

void NcclRank::abort_all(const std::string& cause) {
  cause_ = cause;
  for (const auto& connection : connections_) {
    if (connection->handle_ == nullptr) continue;
    static_cast<void>(calls_.ncclCommAbort(std::exchange(connection->handle_, nullptr)));
  }
}

void NcclRank::watch() {
  Lock lock(mutex_);
  try {
    use_gpu(gpu_);
    while (!ends_ && cause_.empty()) {
      woken_.wait_for(lock, kWatchInterval);
      if (ends_) return;
      if (const std::string cause = problem(); !cause.empty()) abort_all(cause);
    }
  } catch (const std::exception& error) {
    abort_all(error.what());
  }
}

}  // namespace viaduct
