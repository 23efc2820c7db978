#pragma once
// Matches the calls of several ranks: a collective of all ranks, a message of two.

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cuda_host/nccl/nccl_double.h"
#include "nccl.h"

namespace nccl_double {

enum class Kind { all_reduce, all_gather, reduce_scatter, broadcast, send, receive };
const char* kind_name(Kind kind);

struct Call {
  Kind kind;
  const void* in = nullptr;
  void* out = nullptr;
  size_t count = 0;
  ncclDataType_t type = ncclUint8;
  ncclRedOp_t op = ncclSum;
  int peer = -1;  // root, or the peer
  /// Where the memory is that other ranks read or write, in the rank's window; −1: in none.
  int64_t shared_at = -1;
};
size_t bytes_of(const Call& call);
/// The values on which all ranks must agree.
std::string signature(const Call& call);

struct Round {
  Call call;                // of the rank that called first
  std::vector<Call> parts;  // by rank
  std::vector<bool> came;
  int called = 0;  // ranks
  bool done = false;
  std::vector<std::string> results;  // by rank

  Round(const Call& first, int ranks);
  bool all_came() const;
  /// Reads all inputs, and sets the outputs to NaN, at the first call.
  void exchange(Sums sums);
  void leave(int rank) const;
};

struct Message {
  size_t bytes = 0;
  const void* in = nullptr;
  void* out = nullptr;
  bool sender_came = false, receiver_came = false, read = false;
  std::string data;

  bool all_came() const { return sender_came && receiver_came; }
  void leave(bool receiver);
};

}  // namespace nccl_double
