#pragma once
// `Communicator`: collectives and messages over a group of ranks. All of them are asynchronous:
// they return a handle, and the tensors belong to the operation until the handle is waited for.
// Where the device has side streams, operations run on some of them: each begins after what compute
// was given before its launch, and a stream, not the host, waits for it.
// Layers call collectives without asking for the size: in a group of one rank nothing moves, so a
// layer of degree 1 is the same layer.
//
// What a network would have to move is counted in the record of the rank's device, whatever the
// backend. Sums go element by element in rank order, in FP32 (FP64 for FP64), rounded once.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "comm/host_group.h"
#include "device/device.h"
#include "tensor/tensor.h"

namespace viaduct {

enum class ReduceOp { sum, average, max };

/// Channels of messages between a pair of ranks; each is first in, first out.
enum class Flow { activations, gradients };
std::string_view flow_name(Flow flow);

enum class Collective {
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  broadcast,
  send,
  receive,
  barrier,
};
std::string_view collective_name(Collective collective);

/// What a backend is asked to do; checked already.
struct CommRequest {
  Collective collective = Collective::barrier;
  Tensor in, out;  // contiguous; equal for operations in place
  ReduceOp op = ReduceOp::sum;
  std::vector<int64_t> send_rows, receive_rows;  // all_to_all: rows of dim 0 for and from each rank
  int peer = -1;                                 // root of broadcast, other end of a message
  Flow flow = Flow::activations;
  int stream = kComputeStream;  // of the device that the operation runs on, where it has others
};

/// The queue that an operation of a group waits in: those of one queue begin one after the other,
/// those of different queues do not wait for each other. Collectives of a group have one; messages
/// have one for each other end, direction and flow.
std::string comm_queue(std::string_view group, const CommRequest& request);

/// An operation that a backend has under way. Used by the rank's host thread alone.
class CommOperation {
 public:
  virtual ~CommOperation();
  /// True once the result is here and no other rank reads the input. Never blocks. CommError as
  /// `wait`.
  virtual bool ready() = 0;
  /// Blocks until `ready`. CommError that names operation, group, bytes and the ranks that did not
  /// come after the timeout, or the first cause where a rank failed.
  virtual void wait() = 0;
  /// What `stream` is given from here begins after the operation. Where no stream can wait, the
  /// host does.
  virtual void wait_on(int stream) {
    static_cast<void>(stream);
    wait();
  }
  /// Seconds in which data moved, for the metrics; 0 where unknown.
  virtual double busy_seconds() const { return 0; }
};

/// What the caller holds of an operation. Default constructed: nothing under way.
class CommHandle {
 public:
  CommHandle() = default;
  /// `records`: its entries in the device's record, by index, or −1; a group has one a message.
  CommHandle(std::unique_ptr<CommOperation> operation, Device* device, int64_t record);
  CommHandle(std::unique_ptr<CommOperation> operation, Device* device,
             std::vector<int64_t> records);

  bool pending() const { return operation_ != nullptr; }
  bool ready() { return operation_ == nullptr || operation_->ready(); }
  /// What `stream` is given from here begins after the operation: all that is needed before the
  /// result is used on the device, or the tensors are freed. On the cpu compute is the host thread,
  /// and returns from here when the operation is complete. Waiting twice is allowed.
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

  /// What messages and records call the group: "world", "tp", "dp.inner" …
  const std::string& name() const { return name_; }
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Which ranks of the run its ranks are: `members().member(r)` is rank r of this group.
  const RankRule& members() const;

  // Tensors are contiguous (ShapeError otherwise), equal in dtype and shape on all ranks but for
  // all_to_all. Payloads: any dtype where nothing is summed; f32, bf16, f16, f64 and i64 where it
  // is. All ranks of a group call the same collectives in the same order. Each begins after what
  // compute was given so far, and `after`, a stream whose work the operation needs as well.

  /// In place over all ranks of the group.
  CommHandle all_reduce(const Tensor& tensor, ReduceOp op, int after = kComputeStream);
  /// `out` = the ranks' `in` one after the other along dim 0. `in` may be this rank's run of `out`.
  CommHandle all_gather(const Tensor& in, const Tensor& out);
  /// `out` = this rank's run along dim 0 of the reduction of the ranks' `in`; may be that run of
  /// `in`.
  CommHandle reduce_scatter(const Tensor& in, const Tensor& out, ReduceOp op = ReduceOp::sum);
  /// Rows of dim 0: send_rows[r] of `in` go to rank r, receive_rows[r] of `out` come from it, in
  /// rank order.
  CommHandle all_to_all(const Tensor& in, const Tensor& out, std::vector<int64_t> send_rows,
                        std::vector<int64_t> receive_rows);
  CommHandle broadcast(const Tensor& tensor, int root);
  CommHandle send(const Tensor& tensor, int to, Flow flow);
  CommHandle receive(const Tensor& tensor, int from, Flow flow);
  /// Returns when all ranks have come here.
  void barrier();

  /// The communicator of a part of the group: `members` are ranks of this one, ascending, with this
  /// rank among them. Exactly the members call it, all in the same order of splits. A group of one
  /// is the self communicator.
  std::shared_ptr<Communicator> split(const std::vector<int>& members, std::string name);

  /// Operations of this communicator and of later splits are recorded on `device` (not owned).
  void record_on(Device* device) { device_ = device; }
  Device* device() const { return device_; }

  /// What the hosts of these ranks tell each other beside these operations. The first call makes
  /// it, without a word to other ranks.
  HostGroup& host();

  /// This rank failed: all others of the run leave their operations with CommError and `cause`.
  virtual void fail_all(std::string_view cause) = 0;

 protected:
  virtual std::unique_ptr<CommOperation> start(const CommRequest& request) = 0;
  /// Messages that begin together; complete when all are.
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
  /// The stream of a queue, behind what compute and `after` were given so far.
  int stream_behind(const std::string& queue, int after);
  /// An entry of the record, if there is one: its index, or −1.
  int64_t record_launch(const CommRequest& request, const std::string& queue, int64_t position,
                        int64_t sequence, int64_t message_group = -1);
  /// One operation more: how many came before it (CollectiveRecord::sequence).
  int64_t next_in_sequence(const CommRequest& request);
  CommRequest send_request(const Tensor& tensor, int to, Flow flow) const;
  CommRequest receive_request(const Tensor& tensor, int from, Flow flow) const;

  using Channel = std::tuple<Collective, int, Flow>;  // send or receive, other end, flow

  std::string name_;
  Device* device_ = nullptr;
  std::shared_ptr<HostGroup> host_;
  mutable std::shared_ptr<const RankRule> members_;  // of a split; else made when asked for
  // Operations so far, recorded or not: all members count alike, whoever attaches a record when.
  int64_t collectives_ = 0, message_groups_ = 0;
  std::map<Channel, int64_t> messages_;
};

/// Bytes that one rank hands to a network for `request` in a group of `size`: all-reduce
/// 2 (n − 1) / n, all-gather and reduce-scatter (n − 1) / n of the whole, all-to-all what goes to
/// others.
int64_t wire_bytes(const CommRequest& request, int rank, int size);

/// The group of one rank: nothing moves.
std::shared_ptr<Communicator> make_self_communicator(std::string name = "self");
/// Rank `rank` of a simulated group of `size`: operations are recorded and return at once.
std::shared_ptr<Communicator> make_sim_communicator(int rank, int size, std::string name);

}  // namespace viaduct
