#pragma once
// Which rank failed first. A rank that fails tells rank 0, which believes the first that it hears
// of and tells all: so all ranks know the same cause, and one of them reports it.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "comm/mpi/mpi_network.h"

namespace viaduct {

struct MpiFailure {
  int rank = -1;  // of the world
  std::string cause;
};

/// Calls go under the lock of the engine; none blocks.
class MpiFailureWatch {
 public:
  explicit MpiFailureWatch(const MpiGroup& control);

  /// Looks for news.
  void poll();
  /// The first failure of the run, once it is known here.
  const std::optional<MpiFailure>& first() const { return first_; }
  /// This rank failed: says so to rank 0.
  void report(std::string_view cause);
  /// This rank failed and rank 0 does not answer: says so to all.
  void proclaim(std::string_view cause);
  /// False while this rank's news are on their way.
  bool told() const { return outgoing_.under_way().empty(); }
  void give_up();

 private:
  struct Packet {
    int32_t rank;
    uint32_t bytes;
    std::array<char, 4088> cause;
  };
  void fill(int rank, std::string_view cause);
  void decide(MpiFailure failure);
  void listen();

  const MpiGroup& group_;
  Transfers incoming_, outgoing_;
  Packet heard_{}, said_{};
  std::optional<MpiFailure> first_;
};

}  // namespace viaduct
