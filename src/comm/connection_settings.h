#pragma once
// What an operation asks of the connection that carries it. It means something where kernels of a
// library move the data (NCCL); other backends have no such kernels.

#include <compare>

namespace viaduct {

/// What is 0 or false is the library's choice, or that of the group's options.
struct ConnectionSettings {
  int multiprocessors = 0;    // that its kernels take, exactly
  int cluster_size = 0;       // blocks of a cluster, at most `multiprocessors` if that is set
  bool copy_engines = false;  // move the data where the library can, instead of kernels
  auto operator<=>(const ConnectionSettings&) const = default;
};

/// A connection of a group beside its usual ones, and what it carries.
struct OwnConnection {
  ConnectionSettings settings;
  bool collectives = false;
  bool activations = false, gradients = false;  // groups of messages of these flows
  bool operator==(const OwnConnection&) const = default;
};

}  // namespace viaduct
