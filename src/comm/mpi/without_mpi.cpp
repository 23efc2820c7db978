// Replaces this folder in a build without MPI (VIADUCT_MPI=OFF).

#include "base/error.h"
#include "comm/mpi/mpi_own.h"
#include "comm/world.h"

namespace viaduct {
namespace {

[[noreturn]] void refuse() {
  throw ConfigError(
      "ranks that are processes need MPI, and this program was built without it "
      "(VIADUCT_MPI=OFF); ranks of one process need no launcher: dist.ranks=N");
}

}  // namespace

void run_mpi_rank(const WorldOptions&, RankMain) {
  refuse();
}

std::string mpi_library() {
  return "";
}

void mpi_own_collective(Communicator&, const CommRequest&) {
  refuse();
}

void mpi_own_send_receive(Communicator&, const Tensor&, int, const Tensor&, int) {
  refuse();
}

}  // namespace viaduct
