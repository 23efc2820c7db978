#include "comm/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/clock.h"
#include "base/error.h"
#include "comm/queued_operation.h"

namespace viaduct {
namespace {

/// Rows that leave this rank in an all-to-all, for itself included.
int64_t leaving_rows(const CommRequest& request) {
  return std::accumulate(request.send_rows.begin(), request.send_rows.end(), int64_t{0});
}

int64_t row_bytes(const Tensor& tensor) {
  return tensor.dim(0) == 0 ? 0 : tensor.bytes() / tensor.dim(0);
}

bool reducible(DType dtype) {
  return is_floating(dtype) || dtype == DType::i64;
}

void check_tensors(const CommRequest& request, const std::string& group) {
  const bool reduces = request.collective == Collective::all_reduce ||
                       request.collective == Collective::reduce_scatter;
  for (const Tensor* tensor : {&request.in, &request.out}) {
    if (!tensor->defined()) continue;
    VIADUCT_CHECK(ShapeError, tensor->is_contiguous() && (!reduces || reducible(tensor->dtype())),
                  "{} over {}: expected a contiguous tensor{}, got {}",
                  choice_name(request.collective), group,
                  reduces ? " of a floating dtype or i64" : "", describe(*tensor));
  }
}

}  // namespace

CommOperation::~CommOperation() = default;
Communicator::~Communicator() = default;

CommHandle::CommHandle(std::unique_ptr<CommOperation> operation, Device* device, int64_t record)
    : operation_(std::move(operation)), device_(device), record_(record) {}

CommHandle::CommHandle(std::unique_ptr<CommOperation> operation, Device* device,
                       std::vector<int64_t> records)
    : operation_(std::move(operation)), device_(device), group_records_(std::move(records)) {}

template <class Wait>
void CommHandle::finish(Wait&& wait, bool blocks_host) {
  if (operation_ == nullptr) return;
  const auto operation = std::move(operation_);
  StepRecord* record = device_ != nullptr ? device_->record() : nullptr;
  const double begin = record != nullptr ? steady_seconds() : 0;
  wait(*operation);
  if (record == nullptr) return;
  const double end = steady_seconds();
  if (record_ >= 0) record->complete(record_, begin, end, operation->busy_seconds(), blocks_host);
  const auto messages = static_cast<double>(group_records_.size());
  for (const int64_t index : group_records_) {
    if (index >= 0)
      record->complete(index, begin, end, operation->busy_seconds() / messages, blocks_host);
  }
}

void CommHandle::wait(int stream) {
  const bool blocks_host = device_ == nullptr || !device_->has_side_streams();
  finish([stream](CommOperation& operation) { operation.wait_on(stream); }, blocks_host);
}

void CommHandle::wait_host() {
  finish([](CommOperation& operation) { operation.wait(); }, true);
}

std::string comm_queue(std::string_view group, const CommRequest& request) {
  const bool sends = request.collective == Collective::send;
  if (!sends && request.collective != Collective::receive) return std::string(group);
  return fmt::format("{}.{}.{}.{}", group, sends ? "to" : "from", request.peer,
                     choice_name(request.flow));
}

int64_t wire_bytes(const CommRequest& request, int rank, int size) {
  const int64_t others = size - 1;
  switch (request.collective) {
    case Collective::all_reduce:
      return 2 * others * request.in.bytes() / size;
    case Collective::all_gather:
      return others * request.in.bytes();
    case Collective::reduce_scatter:
      return others * request.out.bytes();
    case Collective::all_to_all:
      return row_bytes(request.in) *
             (leaving_rows(request) - request.send_rows[static_cast<size_t>(rank)]);
    case Collective::broadcast:
      return rank == request.peer ? others * request.in.bytes() : 0;
    case Collective::send:
      return request.in.bytes();
    case Collective::receive:
    case Collective::barrier:
      return 0;
  }
  return 0;
}

int Communicator::stream_behind(const std::string& queue, int after) {
  const int stream = device_->stream(queue);
  for (const int before : {kComputeStream, after})
    device_->wait(stream, device_->record_event(before));
  return stream;
}

const RankRule& Communicator::members() const {
  if (members_ == nullptr) members_ = std::make_shared<RankRule>(RankRule::first(size()));
  return *members_;
}

int64_t Communicator::next_in_sequence(const CommRequest& request) {
  return is_message(request.collective)
             ? messages_[{request.collective, request.peer, request.flow}]++
             : collectives_++;
}

int64_t Communicator::record_launch(const CommRequest& request, const std::string& queue,
                                    int64_t position, int64_t sequence, int64_t message_group) {
  if (record() == nullptr) return -1;
  CollectiveRecord entry;
  entry.operation = request.collective;
  entry.group = name_;
  entry.ranks = size();
  const bool rows = request.collective == Collective::all_to_all;
  entry.bytes = std::max(rows                   ? leaving_rows(request) * row_bytes(request.in)
                         : request.in.defined() ? request.in.bytes()
                                                : 0,
                         request.out.defined() ? request.out.bytes() : 0);
  entry.wire_bytes = wire_bytes(request, rank(), size());
  if (request.peer >= 0 && request.peer < size()) entry.peer = members().member(request.peer);
  if (is_message(request.collective)) entry.flow = request.flow;
  members();  // made, if it was not yet
  entry.members = members_;
  entry.place = rank();
  entry.sequence = sequence;
  entry.message_group = message_group;
  entry.multiprocessors = request.connection.multiprocessors;
  entry.launch_seconds = steady_seconds();
  entry.queue = queue;
  entry.stream = request.stream;
  entry.stream_position = position;
  return record()->launch(std::move(entry));
}

CommHandle Communicator::launch(CommRequest request, int after) {
  check_tensors(request, name_);
  const bool beside = has_side_streams();
  const std::string queue =
      beside || record() != nullptr ? comm_queue(name_, request) : std::string();
  if (beside) request.stream = stream_behind(queue, after);
  const int64_t index = record_launch(
      request, queue, beside ? device_->launched(request.stream) : 0, next_in_sequence(request));
  auto operation = start(request);
  if (beside)
    operation = std::make_unique<QueuedOperation>(
        std::move(operation), *device_, request.stream,
        std::vector{request.in, request.out, request.order.from, request.order.to});
  return {std::move(operation), device_, index};
}

CommHandle Communicator::launch_group(std::vector<CommRequest> requests) {
  if (requests.empty()) return {};
  for (const CommRequest& request : requests) check_tensors(request, name_);
  const bool beside = has_side_streams();
  const std::string queue = name_ + ".group." + std::string(choice_name(requests.front().flow));
  const int stream = beside ? stream_behind(queue, kComputeStream) : kComputeStream;
  const int64_t position = beside ? device_->launched(stream) : 0;
  const int64_t group = message_groups_++;
  std::vector<int64_t> records;
  std::vector<Tensor> tensors;
  for (CommRequest& request : requests) {
    request.stream = stream;
    records.push_back(record_launch(request, queue, position, next_in_sequence(request), group));
    tensors.insert(tensors.end(), {request.in, request.out});
  }
  auto operation = start_group(requests);
  if (beside)
    operation = std::make_unique<QueuedOperation>(std::move(operation), *device_, stream,
                                                  std::move(tensors));
  return {std::move(operation), device_, std::move(records)};
}

std::unique_ptr<CommOperation> Communicator::start_group(const std::vector<CommRequest>& requests) {
  std::vector<std::unique_ptr<CommOperation>> operations;
  for (const CommRequest& request : requests) operations.push_back(start(request));
  return std::make_unique<JoinedOperations>(std::move(operations));
}

CommHandle Communicator::all_reduce(const Tensor& tensor, ReduceOp op, int after) {
  return launch({Collective::all_reduce, tensor, tensor, op}, after);
}

CommHandle Communicator::all_gather(const Tensor& in, const Tensor& out,
                                    const ConnectionSettings& on) {
  VIADUCT_CHECK(ShapeError, in.dtype() == out.dtype() && in.elements() * size() == out.elements(),
                "all_gather over {} ({} ranks): {} does not gather to {}", name_, size(),
                describe(in), describe(out));
  CommRequest request{Collective::all_gather, in, out};
  request.connection = on;
  return launch(std::move(request));
}

CommHandle Communicator::reduce_scatter(const Tensor& in, const Tensor& out, ReduceOp op,
                                        const ConnectionSettings& on) {
  VIADUCT_CHECK(ShapeError, in.dtype() == out.dtype() && out.elements() * size() == in.elements(),
                "reduce_scatter over {} ({} ranks): {} does not scatter to {}", name_, size(),
                describe(in), describe(out));
  CommRequest request{Collective::reduce_scatter, in, out, op};
  request.connection = on;
  return launch(std::move(request));
}

CommHandle Communicator::all_to_all(const Tensor& in, const Tensor& out,
                                    std::vector<int64_t> send_rows,
                                    std::vector<int64_t> receive_rows, RowOrder order,
                                    const ConnectionSettings& on) {
  const auto sums_to = [&](const std::vector<int64_t>& rows, const Tensor& tensor) {
    return rows.size() == static_cast<size_t>(size()) && tensor.rank() > 0 &&
           std::all_of(rows.begin(), rows.end(), [](int64_t r) { return r >= 0; }) &&
           std::accumulate(rows.begin(), rows.end(), int64_t{0}) == tensor.dim(0);
  };
  VIADUCT_CHECK(CommError, takes_row_order() || (!order.from && !order.to),
                "all_to_all over {}: this communicator takes no order of rows", name_);
  for (const Tensor* index : {&order.from, &order.to}) {
    VIADUCT_CHECK(ShapeError,
                  !index->defined() || (index->dtype() == DType::i32 && index->rank() == 1 &&
                                        index->is_contiguous()),
                  "all_to_all over {}: expected an order of rows in contiguous i32 [rows], got {}",
                  name_, describe(*index));
  }
  VIADUCT_CHECK(ShapeError,
                in.dtype() == out.dtype() && sums_to(send_rows, order.from ? order.from : in) &&
                    sums_to(receive_rows, out) && in.rank() > 0 &&
                    (!order.to || order.to.dim(0) == out.dim(0)),
                "all_to_all over {} ({} ranks): the rows to send or to receive do not add up to {} "
                "and {}",
                name_, size(), describe(order.from ? order.from : in), describe(out));
  CommRequest request{Collective::all_to_all, in, out};
  request.order = std::move(order);
  request.connection = on;
  request.send_rows = std::move(send_rows);
  request.receive_rows = std::move(receive_rows);
  return launch(request);
}

CommHandle Communicator::broadcast(const Tensor& tensor, int root) {
  CommRequest request{Collective::broadcast, tensor, tensor};
  request.peer = root;
  return launch(request);
}

CommRequest Communicator::send_request(const Tensor& tensor, int to, Flow flow) const {
  VIADUCT_CHECK(CommError, to >= 0 && to < size() && to != rank(),
                "send over {} ({} ranks): rank {} cannot send to rank {}", name_, size(), rank(),
                to);
  CommRequest request{Collective::send, tensor, Tensor()};
  request.peer = to;
  request.flow = flow;
  return request;
}

CommRequest Communicator::receive_request(const Tensor& tensor, int from, Flow flow) const {
  VIADUCT_CHECK(CommError, from >= 0 && from < size() && from != rank(),
                "receive over {} ({} ranks): rank {} cannot receive from rank {}", name_, size(),
                rank(), from);
  CommRequest request{Collective::receive, Tensor(), tensor};
  request.peer = from;
  request.flow = flow;
  return request;
}

CommHandle Communicator::send(const Tensor& tensor, int to, Flow flow) {
  return launch(send_request(tensor, to, flow));
}

CommHandle Communicator::receive(const Tensor& tensor, int from, Flow flow) {
  return launch(receive_request(tensor, from, flow));
}

HostGroup& Communicator::host() {
  if (host_ == nullptr) host_ = make_host_group();
  members();  // made, if it was not yet
  host_->record_on(device_, name_, members_);
  return *host_;
}

void Communicator::barrier() {
  launch({Collective::barrier}).wait_host();
}

std::shared_ptr<Communicator> Communicator::split(const std::vector<int>& members,
                                                  std::string name) {
  const bool inside = !members.empty() && std::is_sorted(members.begin(), members.end()) &&
                      std::adjacent_find(members.begin(), members.end()) == members.end() &&
                      members.front() >= 0 && members.back() < size() &&
                      std::binary_search(members.begin(), members.end(), rank());
  VIADUCT_CHECK(CommError, inside,
                "split of {} ({} ranks) into {}: expected ascending ranks of the group with rank "
                "{} among them",
                name_, size(), name, rank());
  auto part = members.size() == 1 ? make_self_communicator(std::move(name))
                                  : split_members(members, std::move(name));
  part->record_on(device_);
  std::vector<int> of_run;
  of_run.reserve(members.size());
  for (const int member : members) of_run.push_back(this->members().member(member));
  part->members_ = std::make_shared<RankRule>(RankRule::of(of_run));
  return part;
}

}  // namespace viaduct
