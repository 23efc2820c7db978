#pragma once
// Groups that straddle fast domains (NVLink: 72 or 8 devices): ranks r and s share a domain if r /
// size = s / size. Reported before a run starts, with sizes that avoid it.

#include <cstdint>
#include <string>
#include <vector>

#include "comm/group_kinds.h"

namespace viaduct {

/// A kind of heavy traffic (gathers, reductions and exchanges; not the pipeline's messages), and
/// how many of its groups cross more domain boundaries than they must.
struct Straddling {
  GroupKind kind = GroupKind::tp;
  int64_t groups = 0;               // of this kind
  int64_t straddling = 0;           // of them
  int64_t ranks_per_group = 0;      // if larger than a domain, straddling cannot be avoided
  std::vector<GlobalRank> example;  // the first group that straddles; empty: none
};

/// One entry for each kind of heavy traffic that has groups of more than one rank.
std::vector<Straddling> groups_across_domains(const Mesh& mesh, int domain_size);

/// Notes for the user: one line for each kind that straddles, with a suggestion; empty if none
/// does.
std::vector<std::string> domain_notes(const Mesh& mesh, int domain_size);

}  // namespace viaduct
