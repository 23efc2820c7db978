#pragma once
// Which groups straddle fast domains (NVLink: 72 or 8 devices): ranks r and s share one if
// r / size = s / size. Said before a run starts, with sizes that fit.

#include <cstdint>
#include <string>
#include <vector>

#include "comm/group_kinds.h"

namespace viaduct {

/// A kind of heavy traffic (gathers, reductions and exchanges; not the pipeline's messages), and
/// how many of its groups reach over a border of domains that they need not cross.
struct Straddling {
  GroupKind kind = GroupKind::tp;
  int64_t groups = 0;               // of this kind
  int64_t straddling = 0;           // of them
  int64_t ranks_per_group = 0;      // larger than a domain: they cannot but straddle
  std::vector<GlobalRank> example;  // the first that straddles; empty if none does
};

/// One entry for each kind of heavy traffic that has groups of more than one rank.
std::vector<Straddling> groups_across_domains(const Mesh& mesh, int domain_size);

/// What to say about it: one line for each kind that straddles, with a suggestion; empty if all is
/// well.
std::vector<std::string> domain_notes(const Mesh& mesh, int domain_size);

}  // namespace viaduct
