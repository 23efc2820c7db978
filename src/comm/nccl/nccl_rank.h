#pragma once
// What the communicators of a rank share: the connections that NCCL keeps, and a watchdog. NCCL's
// operations run on the GPU and wait there for other ranks, forever if one has failed; the host
// then waits for the GPU. So a thread watches them: if an operation takes longer than the
// timeout, if NCCL reports an error, or if another rank has failed, it aborts all connections, the
// streams continue, and the next call of the rank throws the cause.

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "base/thread.h"
#include "comm/communicator.h"
#include "comm/nccl/nccl_calls.h"
#include "comm/nccl_options.h"

struct CUevent_st;

namespace viaduct {

/// One connection of a group's ranks (`ncclComm_t`), which serves one stream of the device: NCCL
/// runs the operations of a connection one after the other.
class NcclConnection {
 public:
  const std::string& name() const { return name_; }

 private:
  friend class NcclRank;
  struct Flight {
    int64_t ticket = 0;
    CUevent_st* done = nullptr;  // behind the operation
    double begun = 0;            // when it was given to the stream
    std::string what;
  };
  std::string name_;
  ncclComm_t handle_ = nullptr;  // null once aborted
  int64_t tickets_ = 0;
  std::deque<Flight> flights_;  // in the order of the stream
  int64_t capture_ = 0;         // the last one that has calls of it
  bool registers_ = false;      // the run's memory is registered at its first operation
  void* registration_ = nullptr;
  ncclWindow_t window_ = nullptr;  // in its place, of symmetric memory
};

/// What has become of memory that was to be registered with a connection.
enum class MemoryRegistration { ignored, registered, symmetric };

class NcclRank {
 public:
  /// On the GPU of the calling thread. `hosts`: the world's communicator between hosts.
  /// Where multiprocessors are bounded, its first connection has one of them.
  NcclRank(std::shared_ptr<Communicator> hosts, double timeout_seconds,
           const NcclRankOptions& options = {});
  /// Does not wait: the device's streams are finished, or connections are aborted.
  ~NcclRank();
  NcclRank(const NcclRank&) = delete;
  NcclRank& operator=(const NcclRank&) = delete;

  /// Where multiprocessors are bounded, gives each of the connections that come an equal share of
  /// what the first one leaves. ConfigError if that is none, or if the GPU has fewer.
  void share_out(FunctionRef<int64_t()> connections);
  /// Ranks 0 … size − 1 call it with the same id. Blocks until all have joined. CommError after the
  /// timeout, or with the cause if a rank failed. ConfigError if the options ask for more than the
  /// connection's share of the multiprocessors.
  NcclConnection& connect(const ncclUniqueId& id, int rank, int size, std::string name,
                          const NcclGroupOptions& options);
  /// Whether the connection wants that memory is registered with it, and it has none yet.
  bool wants_memory(const NcclConnection& on) const;
  /// Registers memory with a connection that wants it; `deregister` must come before that memory is
  /// freed. `symmetric`: as a window; then all ranks of the connection call it, with as many bytes.
  /// NCCL has no windows between GPUs that cannot map each other's memory, and may ignore a
  /// registration.
  MemoryRegistration register_memory(NcclConnection& on, std::pair<void*, int64_t> memory,
                                     bool symmetric);
  void deregister(NcclConnection& on);
  ncclUniqueId unique_id();

  /// Makes the calls of `f` on the connection as one group, and returns when they are in the
  /// stream. Returns the operation's ticket. `what` is for messages.
  int64_t run(NcclConnection& on, CUstream_st* stream, std::string what,
              FunctionRef<ncclResult_t(const NcclCalls&, ncclComm_t)> f);
  /// The same into a graph: `capture` is its number (CudaDevice::capture_number). True for the
  /// first calls of the connection in it: then `launched` must follow each of its launches.
  bool capture(NcclConnection& on, int64_t capture, const std::string& what,
               FunctionRef<ncclResult_t(const NcclCalls&, ncclComm_t)> f);
  /// A graph with calls of the connection was given to the stream. CommError with the cause if the
  /// connections are aborted.
  void launched(NcclConnection& on, CUstream_st* stream, std::string what);
  /// Whether the operation is complete. CommError with the cause once the connections are aborted.
  bool over(NcclConnection& on, int64_t ticket);
  /// Throws the cause if the connections are aborted.
  void check() const;

 private:
  using Lock = std::unique_lock<std::mutex>;

  void watch();
  /// Why the connections must be aborted; empty if all is well.
  std::string problem();
  void abort_all(const std::string& cause);
  void check_locked() const;
  void check_call(ncclResult_t result, NcclConnection* on, std::string_view call);
  /// Waits until NCCL has finished its background work; unlocks meanwhile.
  void settle(Lock& lock, NcclConnection& on, std::string_view what);
  /// Makes the calls as one group; they are in their stream when it returns.
  void call(Lock& lock, NcclConnection& on, const std::string& what,
            FunctionRef<ncclResult_t(const NcclCalls&, ncclComm_t)> f);
  /// The watchdog looks after the last work of the stream. Returns its ticket.
  int64_t watch_work(NcclConnection& on, CUstream_st* stream, std::string what);
  void retire(NcclConnection& on);
  CUevent_st* event();

  const NcclCalls& calls_;
  const std::shared_ptr<Communicator> hosts_;
  const double timeout_seconds_;
  const NcclRankOptions options_;
  const int gpu_;

  mutable std::mutex mutex_;  // one thread calls NCCL at a time; protects all below
  std::condition_variable woken_;
  std::vector<std::unique_ptr<NcclConnection>> connections_;
  std::vector<CUevent_st*> events_;  // to be recorded again
  std::string cause_;                // why the connections are aborted
  std::optional<int> share_;         // of a connection, of the multiprocessors
  bool ends_ = false;
  Thread thread_;  // last: it uses all others
};

}  // namespace viaduct
