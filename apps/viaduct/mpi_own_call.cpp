#include "mpi_own_call.h"

#include "comm/mpi/mpi_own.h"

namespace viaduct::cli {

std::function<void()> mpi_own_call(Communicator& group, const std::string& op, const Tensor& whole,
                                   const Tensor& other, const Tensor& part) {
  const int n = group.size(), next = (group.rank() + 1) % n, last = (group.rank() + n - 1) % n;
  const bool sums = op == "all_reduce" || op == "reduce_scatter";
  if (sums && whole.dtype() != DType::f32) return nullptr;
  if (op == "send")
    return [&group, whole, other, next, last] {
      mpi_own_send_receive(group, whole, next, other, last);
    };
  CommRequest request;
  if (op == "all_reduce")
    request = {Collective::all_reduce, whole, whole};
  else if (op == "all_gather")
    request = {Collective::all_gather, part, whole};
  else if (op == "reduce_scatter")
    request = {Collective::reduce_scatter, whole, part};
  else if (op == "all_to_all")
    request = {Collective::all_to_all, whole, other};
  else if (op == "broadcast")
    request = {Collective::broadcast, whole, whole};
  request.send_rows.assign(static_cast<size_t>(n), part.elements());
  request.receive_rows = request.send_rows;
  request.peer = 0;
  return [&group, request] { mpi_own_collective(group, request); };
}

}  // namespace viaduct::cli
