#pragma once
// `Communicator`: collectives and messages over a group of ranks. All of them are asynchronous:
// they return a handle, and the tensors belong to the operation until the handle is waited for.
// On a device with side streams, an operation runs on one of them: it begins after the compute work
// launched before it, and a stream, not the host, waits for it.
// Layers call collectives whatever the group's size: in a group of one rank nothing moves, so a
// layer of degree 1 needs no code of its own.
//
// The bytes that a network would have to move are counted in the record of the rank's device with
// every backend. Sums are computed element by element in rank order, in FP32 (FP64 for FP64), and
// rounded once.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "base/function_ref.h"
#include "comm/connection_settings.h"
#include "comm/host_group.h"
#include "device/device.h"
#include "tensor/tensor.h"
#include "timeline/collective.h"

namespace viaduct {

enum class ReduceOp { sum, average, max };

/// Which rows an all-to-all takes and where it puts them, by number and in the order of ranks: row
/// r that leaves is in[from[r]], row r that arrives becomes out[to[r]]. i32 [rows], in the device's
/// memory, contiguous; undefined: in storage order. Read when the operation runs.
struct RowOrder {
  Tensor from, to;
};

/// An operation as a backend gets it; its arguments are checked.
struct CommRequest {
  Collective collective = Collective::barrier;
  Tensor in, out;  // contiguous; the same tensor for operations in place
  ReduceOp op = ReduceOp::sum;
  std::vector<int64_t> send_rows, receive_rows;  // all_to_all: rows of dim 0 for and from each rank
  int peer = -1;                                 // root of broadcast, other end of a message
  Flow flow = Flow::activations;
  int stream = kComputeStream;         // of the device, that the operation runs on
  RowOrder order = {};                 // all_to_all
  ConnectionSettings connection = {};  // that carries it, one that is open (open_connections)
};

/// The queue of an operation: operations of one queue begin one after the other, those of different
/// queues do not wait for each other. A group has one queue for its collectives, and for messages
/// one for each other end, direction and flow.
std::string comm_queue(std::string_view group, const CommRequest& request);

/// An operation in progress. Only the rank's host thread uses it.
class CommOperation {
 public:
  virtual ~CommOperation();
  /// True once the result has arrived and no other rank reads the input any more. Never blocks.
  /// Throws CommError as `wait` does.
  virtual bool ready() = 0;
  /// Blocks until `ready`. After the timeout, CommError that names operation, group, bytes and the
  /// ranks that did not join; if a rank failed, CommError with the first cause.
  virtual void wait() = 0;
  /// Work given to `stream` from now on begins after the operation. If the backend has no streams,
  /// the host waits.
  virtual void wait_on(int stream) {
    static_cast<void>(stream);
    wait();
  }
  /// Seconds in which data moved, for the metrics; 0 if unknown.
  virtual double busy_seconds() const { return 0; }
};

/// The caller's handle of an operation. A default-constructed handle has no operation.
class CommHandle {
 public:
  CommHandle() = default;
  /// `record`: index of its entry in the device's record, or −1; `records`: one for each message of
  /// a group.
  CommHandle(std::unique_ptr<CommOperation> operation, Device* device, int64_t record);
  CommHandle(std::unique_ptr<CommOperation> operation, Device* device,
             std::vector<int64_t> records);

  bool pending() const { return operation_ != nullptr; }
  bool ready() { return operation_ == nullptr || operation_->ready(); }
  /// Work given to `stream` from now on begins after the operation. That is enough before the
  /// result is used on the device or the tensors are freed. On the cpu, where compute is the host
  /// thread, it returns when the operation is complete. Waiting twice is allowed.
  void wait(int stream = kComputeStream);
  /// Returns when the operation is complete on this rank: for results that the host reads.
  void wait_host();

 private:
  template <class Wait>
  void finish(Wait&& wait, bool blocks_host);

  std::unique_ptr<CommOperation> operation_;
  Device* device_ = nullptr;
  int64_t record_ = -1;                 // of one operation
  std::vector<int64_t> group_records_;  // or of a group
};

class Communicator {
 public:
  explicit Communicator(std::string name) : name_(std::move(name)) {}
  virtual ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// The group's name in messages and records: "world", "tp", "dp.inner" …
  const std::string& name() const { return name_; }
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The ranks of the run that form the group: `members().member(r)` is rank r of the group.
  const RankRule& members() const;

  // Tensors must be contiguous (else ShapeError), and equal in dtype and shape on all ranks except
  // for all_to_all. Reductions take f32, bf16, f16, f64 and i64, other operations any dtype. All
  // ranks of a group must call the same collectives in the same order. An operation begins after
  // the earlier work of the compute stream and of the stream `after`. `on`: the connection that
  // carries it, if that was opened (`open_connections`); operations of a group run one after the
  // other whichever connections carry them.

  /// In place over all ranks of the group.
  CommHandle all_reduce(const Tensor& tensor, ReduceOp op, int after = kComputeStream);
  /// `out` = the ranks' `in`, concatenated along dim 0. `in` may be this rank's part of `out`.
  CommHandle all_gather(const Tensor& in, const Tensor& out, const ConnectionSettings& on = {});
  /// `out` = this rank's part along dim 0 of the reduction of the ranks' `in`; it may be that part
  /// of `in`.
  CommHandle reduce_scatter(const Tensor& in, const Tensor& out, ReduceOp op = ReduceOp::sum,
                            const ConnectionSettings& on = {});
  /// Rows of dim 0: send_rows[r] of `in` go to rank r, receive_rows[r] of `out` come from it, in
  /// rank order. With an order, rows of `in` may leave several times or never, and `order.to` is a
  /// permutation of the rows of `out`; `in` and `out` are different memory.
  CommHandle all_to_all(const Tensor& in, const Tensor& out, std::vector<int64_t> send_rows,
                        std::vector<int64_t> receive_rows, RowOrder order = {},
                        const ConnectionSettings& on = {});
  CommHandle broadcast(const Tensor& tensor, int root);
  CommHandle send(const Tensor& tensor, int to, Flow flow);
  CommHandle receive(const Tensor& tensor, int from, Flow flow);
  /// Returns when all ranks of the group have called it.
  void barrier();

  /// The communicator of a subgroup: `members` are ranks of this group in ascending order, this
  /// rank among them. Exactly the members must call it, in the same order of splits. A group of one
  /// is the self communicator.
  std::shared_ptr<Communicator> split(const std::vector<int>& members, std::string name);

  /// Records the operations of this communicator and of later splits on `device` (not owned).
  void record_on(Device* device) { device_ = device; }
  Device* device() const { return device_; }

  /// The group for exchanges between the hosts of these ranks. It is made at the first call,
  /// without communication.
  HostGroup& host();

  /// Reports that this rank failed: operations of all other ranks throw CommError with `cause`.
  virtual void fail_all(std::string_view cause) = 0;
  /// "rank 3: …": why a rank of the run has failed, if this backend knows; else empty. Any thread
  /// may call it.
  virtual std::string failure() const { return {}; }
  /// After `fail_all`, which every rank calls that leaves its work: the ranks of the run connected
  /// anew, for what they still do together before they end. All of them call it, on the world;
  /// CommError if one has ended or does not come within `seconds`, which is also the timeout of its
  /// operations. The first cause stays the one that the run reports. Null where the backend has no
  /// second connection.
  virtual std::shared_ptr<Communicator> reconnect(double seconds) {
    static_cast<void>(seconds);
    return nullptr;
  }

  /// Whether a device may capture the operations into a graph (`Device::capture`) and do them again
  /// without the host.
  virtual bool can_be_captured() const { return false; }

  /// Whether an all-to-all takes an order of rows. Where it does not, callers copy the rows in
  /// order before and after it.
  virtual bool takes_row_order() const { return true; }

  /// Announces messages: single ones with `peers`, each of which names this rank too, and, with
  /// `message_groups`, those of CommGroup. All ranks of the group call it, once, before the first
  /// message. A backend whose connections must be made by both ends makes them here.
  virtual void open_channels(const std::vector<int>& peers, bool message_groups) {
    static_cast<void>(peers), static_cast<void>(message_groups);
  }
  /// Announces, before the first split, how many connections a rank of the run will have at most
  /// beside this one's, where the backend shares something out among them (it then asks).
  virtual void expect_connections(FunctionRef<int64_t()> most) { static_cast<void>(most); }
  /// Announces connections beside the usual ones, with settings that differ, for operations that
  /// name them. All ranks of the group call it, once, with the same list, before the first of these
  /// operations. Backends without such settings carry all operations alike.
  virtual void open_connections(const std::vector<OwnConnection>& connections) {
    static_cast<void>(connections);
  }

 protected:
  virtual std::unique_ptr<CommOperation> start(const CommRequest& request) = 0;
  /// Starts messages together; the operation is complete when all of them are.
  virtual std::unique_ptr<CommOperation> start_group(const std::vector<CommRequest>& requests);
  virtual std::shared_ptr<Communicator> split_members(const std::vector<int>& members,
                                                      std::string name) = 0;
  virtual std::shared_ptr<HostGroup> make_host_group() = 0;

 private:
  friend class CommGroup;
  CommHandle launch(CommRequest request, int after = kComputeStream);
  CommHandle launch_group(std::vector<CommRequest> requests);
  bool has_side_streams() const { return device_ != nullptr && device_->has_side_streams(); }
  StepRecord* record() const { return device_ != nullptr ? device_->record() : nullptr; }
  /// The stream of a queue, made to wait for the earlier work of compute and `after`.
  int stream_behind(const std::string& queue, int after);
  /// Adds an entry to the record; returns its index, or −1 without a record.
  int64_t record_launch(const CommRequest& request, const std::string& queue, int64_t position,
                        int64_t sequence, int64_t message_group = -1);
  /// Counts the operation; returns how many came before it (CollectiveRecord::sequence).
  int64_t next_in_sequence(const CommRequest& request);
  CommRequest send_request(const Tensor& tensor, int to, Flow flow) const;
  CommRequest receive_request(const Tensor& tensor, int from, Flow flow) const;

  using Channel = std::tuple<Collective, int, Flow>;  // send or receive, other end, flow

  std::string name_;
  Device* device_ = nullptr;
  std::shared_ptr<HostGroup> host_;
  mutable std::shared_ptr<const RankRule> members_;  // of a split; else made at the first request
  // Operations so far, recorded or not, so that all members count alike.
  int64_t collectives_ = 0, message_groups_ = 0;
  std::map<Channel, int64_t> messages_;
};

/// Bytes that one rank hands to a network for `request` in a group of n = `size` ranks: all-reduce
/// 2 (n − 1) / n of the tensor, all-gather and reduce-scatter (n − 1) / n of the whole, all-to-all
/// the rows for other ranks.
int64_t wire_bytes(const CommRequest& request, int rank, int size);

/// The group of one rank: nothing moves.
std::shared_ptr<Communicator> make_self_communicator(std::string name = "self");
/// Rank `rank` of a simulated group of `size`: operations are recorded and return at once.
std::shared_ptr<Communicator> make_sim_communicator(int rank, int size, std::string name);

}  // namespace viaduct
