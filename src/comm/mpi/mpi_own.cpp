#include "comm/mpi/mpi_own.h"

#include "base/error.h"
#include "comm/mpi/mpi_communicator.h"
#include "comm/mpi/mpi_handle.h"

namespace viaduct {
namespace {

MPI_Datatype type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return MPI_FLOAT;
    case DType::f64:
      return MPI_DOUBLE;
    case DType::i64:
      return MPI_INT64_T;
    default:
      fail<CommError>("MPI has no type for sums in {}", dtype_name(dtype));
  }
}

int count_of(int64_t count) {
  VIADUCT_CHECK(CommError, count <= INT32_MAX, "MPI counts are int, not {}", count);
  return static_cast<int>(count);
}

void scatter_sums(const CommRequest& r, MPI_Comm comm, MPI_Op op) {
  check_mpi(MPI_Reduce_scatter_block(r.in.raw(), r.out.raw(), count_of(r.out.elements()),
                                     type_of(r.in.dtype()), op, comm),
            "MPI_Reduce_scatter_block");
}

void exchange_rows(const CommRequest& r, MPI_Comm comm) {
  const auto bytes = [](const Tensor& tensor, const std::vector<int64_t>& rows) {
    std::pair<std::vector<int>, std::vector<int>> counts_and_places;
    const int64_t row = tensor.dim(0) == 0 ? 0 : tensor.bytes() / tensor.dim(0);
    int64_t place = 0;
    for (const int64_t count : rows) {
      counts_and_places.first.push_back(count_of(count * row));
      counts_and_places.second.push_back(count_of(place));
      place += count * row;
    }
    return counts_and_places;
  };
  const auto sent = bytes(r.in, r.send_rows), received = bytes(r.out, r.receive_rows);
  check_mpi(MPI_Alltoallv(r.in.raw(), sent.first.data(), sent.second.data(), MPI_BYTE, r.out.raw(),
                          received.first.data(), received.second.data(), MPI_BYTE, comm),
            "MPI_Alltoallv");
}

void run(const CommRequest& r, MPI_Comm comm) {
  const MPI_Op op = r.op == ReduceOp::max ? MPI_MAX : MPI_SUM;
  switch (r.collective) {
    case Collective::all_reduce:
      return check_mpi(MPI_Allreduce(MPI_IN_PLACE, r.out.raw(), count_of(r.out.elements()),
                                     type_of(r.out.dtype()), op, comm),
                       "MPI_Allreduce");
    case Collective::all_gather: {
      const int bytes = count_of(r.in.bytes());
      return check_mpi(
          MPI_Allgather(r.in.raw(), bytes, MPI_BYTE, r.out.raw(), bytes, MPI_BYTE, comm),
          "MPI_Allgather");
    }
    case Collective::reduce_scatter:
      return scatter_sums(r, comm, op);
    case Collective::all_to_all:
      return exchange_rows(r, comm);
    case Collective::broadcast:
      return check_mpi(MPI_Bcast(r.out.raw(), count_of(r.out.bytes()), MPI_BYTE, r.peer, comm),
                       "MPI_Bcast");
    case Collective::barrier:
      return check_mpi(MPI_Barrier(comm), "MPI_Barrier");
    default:
      fail<CommError>("{} has no MPI collective", choice_name(r.collective));
  }
}

}  // namespace

void mpi_own_collective(Communicator& group, const CommRequest& request) {
  VIADUCT_CHECK(CommError, request.op != ReduceOp::average, "MPI has no average");
  with_mpi_group(group, [&](const MpiGroup& of_mpi) { run(request, of_mpi.handle().comm); });
}

void mpi_own_send_receive(Communicator& group, const Tensor& out, int to, const Tensor& in,
                          int from) {
  with_mpi_group(group, [&](const MpiGroup& of_mpi) {
    check_mpi(MPI_Sendrecv(out.raw(), count_of(out.bytes()), MPI_BYTE, to, 0, in.raw(),
                           count_of(in.bytes()), MPI_BYTE, from, 0, of_mpi.handle().comm,
                           MPI_STATUS_IGNORE),
              "MPI_Sendrecv");
  });
}

}  // namespace viaduct
