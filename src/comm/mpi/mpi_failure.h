#pragma once
// Finds the rank that failed first. A failing rank reports to rank 0, which takes the first report
// that it receives and sends it to all: so all ranks have the same cause, and one of them reports
// it.

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

/// Calls are made under the lock of the engine; none blocks.
class MpiFailureWatch {
 public:
  explicit MpiFailureWatch(const MpiGroup& control);

  /// Receives reports and decisions that have arrived.
  void poll();
  /// The first failure of the run, once it is known here.
  const std::optional<MpiFailure>& first() const { return first_; }
  /// This rank failed: reports it to rank 0.
  void report(std::string_view cause);
  /// This rank failed and rank 0 does not answer: sends the decision to all.
  void proclaim(std::string_view cause);
  /// False while this rank's report or decision is being sent.
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
