#pragma once
// The backend's calls to MPI, behind types that do not need mpi.h: groups of ranks and non-blocking
// messages between them. Only starting, making a group and ending block.
//
// MPI is initialised with MPI_THREAD_SERIALIZED: calls come from the host thread and the progress
// thread, one at a time, under the lock of `MpiEngine`.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"

namespace viaduct {

/// An MPI communicator: some ranks of the world, numbered from 0.
class MpiGroup {
 public:
  struct Handle;
  MpiGroup(std::unique_ptr<Handle> handle, std::string name, int rank,
           std::vector<int> world_ranks);
  ~MpiGroup();

  /// The group's name in messages.
  const std::string& name() const { return name_; }
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(world_ranks_.size()); }
  /// The rank in the world of a rank of the group.
  int world_rank(int rank) const { return world_ranks_[static_cast<size_t>(rank)]; }
  const Handle& handle() const { return *handle_; }

 private:
  std::unique_ptr<Handle> handle_;
  std::string name_;
  int rank_;
  std::vector<int> world_ranks_;
};

/// A message in progress.
struct Transfer {
  int peer = -1;      // rank of the group
  int64_t bytes = 0;  // of a message from any rank: its size, once it has arrived
  bool sending = false;
  bool from_any = false;
  int64_t label = 0;  // the caller's
};

/// Messages of one operation. Messages between a pair of ranks with equal tags arrive in order;
/// messages above 1 GiB are sent in pieces (MPI counts are int).
class Transfers {
 public:
  explicit Transfers(const MpiGroup& group);
  /// Cancels messages in flight, as `give_up`.
  ~Transfers();
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  void send(const void* data, int64_t bytes, int to, int tag, int64_t label = 0);
  void receive(void* data, int64_t bytes, int from, int tag, int64_t label = 0);
  /// Receives a message of at most `bytes` (below 1 GiB) from any rank.
  void receive_from_any(void* data, int64_t bytes, int tag, int64_t label = 0);

  /// Calls `done` for each message that has arrived or left since the last poll; it may post
  /// others. False if there was none. CommError if MPI reports an error or a message has an
  /// unexpected size.
  bool poll(FunctionRef<void(const Transfer&)> done);
  const std::vector<Transfer>& under_way() const { return transfers_; }
  /// The longest time that a cancelled message may take to leave or arrive.
  static constexpr double kDrainSeconds = 0.5;
  /// Cancels messages in flight. A receive without a message is cancelled. A receive that is being
  /// filled, and a send that is being read, continue: returns when MPI no longer uses their memory,
  /// or after `seconds`, if the other rank is gone or asleep.
  void give_up(double seconds = kDrainSeconds);

 private:
  struct Requests;
  void add(const Transfer& transfer);

  const MpiGroup& group_;
  std::vector<Transfer> transfers_;
  std::unique_ptr<Requests> requests_;  // of transfers_, by index
};

/// MPI from its start to its end; once per process.
class MpiNetwork {
 public:
  /// CommError if MPI was already started in this process or cannot be called by two threads.
  MpiNetwork();
  /// Leaves MPI running if `finish` was not called: the launcher then ends all ranks.
  ~MpiNetwork();

  const MpiGroup& world() const { return *world_; }
  /// A separate group of all ranks, for reports of failures.
  const MpiGroup& control() const { return *control_; }
  /// Another one, for what ranks do after a failure: no message of before reaches it.
  const MpiGroup& spare() const { return *spare_; }
  /// Ranks on this machine.
  int local_ranks() const { return local_ranks_; }

  /// Collective over `members` (ranks of `parent`, ascending) only; blocks until they have all
  /// called it.
  std::unique_ptr<MpiGroup> make_group(const MpiGroup& parent, std::span<const int> members,
                                       std::string name);
  /// MPI_Finalize: waits for all ranks.
  void finish();
  /// MPI_Abort: ends all processes of the run.
  [[noreturn]] void end_all();

 private:
  std::unique_ptr<MpiGroup> world_, control_, spare_;
  int local_ranks_ = 1;
};

}  // namespace viaduct
