#pragma once
// How long ops and collectives of ranks on this machine's cores or GPUs take, from the table of
// `viaduct bench --calibrate`: a product or attention of a measured size as measured; of a size
// between measured ones at the rate that they suggest; anything else from bytes and operations at
// the table's rates.
//
// The table says how many ranks were measured at the same time, as they share caches and the
// bandwidth of memory. Ranks that have more threads than there are cores take turns. GPUs exchange
// over the links of the cluster, which a table does not have.

#include <optional>
#include <string>

#include "hardware/calibration.h"
#include "hardware/cluster.h"
#include "plan/collective_time.h"
#include "plan/op_time.h"
#include "run/run_config.h"

namespace viaduct {

enum class TimeBasis { measured, interpolated, modelled };
inline constexpr int kTimeBases = 3;

struct BasedTime {
  double seconds = 0;
  TimeBasis basis = TimeBasis::modelled;
};

/// The cluster with the table's rates, bandwidths and memory; on CPU ranks also with its peaks.
/// ConfigError if the table is of another GPU, or of a CPU for a cluster of GPUs or the reverse.
Cluster calibrated_cluster(const Cluster& catalogued, const Calibration& table);

/// A sentence if other numbers of ranks work at the same time in the run than in the table; on
/// GPUs, which share nothing, never.
std::optional<std::string> note_of_ranks(const Calibration& table, const RunConfig& run);

class CalibratedTime {
 public:
  /// ConfigError if the run's ranks have other kernels or, on a CPU, other threads than the table.
  /// `settings` are for what the table has no rates of; `cluster` is calibrated.
  CalibratedTime(const Calibration& table, const RunConfig& run, const Cluster& cluster,
                 const OpTimeSettings& settings, const CollectiveTimeSettings& collectives);
  /// Whether collectives share the cluster's links, as GPUs do.
  bool has_links() const { return links_.has_value(); }
  /// Needs the shapes of the op's operands to find products and attention in the table.
  BasedTime op(const OpEntryRecord& op) const;
  BasedTime collective(const CollectiveRecord& collective) const;

 private:
  BasedTime product(const OpEntryRecord& op) const;
  BasedTime attention(const OpEntryRecord& op) const;
  BasedTime pass(const OpEntryRecord& op) const;

  const Calibration& table_;
  OpTime roofline_;
  std::optional<CollectiveTime> links_;  // of GPUs
  double vector_rate_ = 0;
  double turns_ = 1;  // threads of all ranks, for each core
};

}  // namespace viaduct
