#pragma once
// Where work is in the streams of an expanded record: instances add work that the record lacks, and
// all later work of the stream moves behind it.

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "timeline/record_expansion.h"

namespace viaduct {

/// Is told of the events in the order of the expansion.
class ExpandedStreams {
 public:
  explicit ExpandedStreams(const RecordExpansion& expansion) : expansion_(expansion) {}

  /// An action begins, or what comes after one.
  void enter(const ExpandedEvent& first);
  /// The place of work that happens now.
  int64_t place(int stream, int64_t position) const { return position + work_of(moves_, stream); }
  /// An edge that is made now.
  StreamEdgeRecord moved(StreamEdgeRecord edge);
  /// Notes that a stream was given work at a place of the expanded record.
  void given(int stream, int64_t position);

 private:
  using Work = std::vector<int64_t>;  // by stream
  int64_t source(const StreamEdgeRecord& edge) const;
  int64_t source_of_instance(const StreamEdgeRecord& edge, bool latest) const;

  const RecordExpansion& expansion_;
  const ActionRecord* instance_ = nullptr;
  const ActionRecord* recorded_as_ = nullptr;
  Work skipped_;  // the work of all instances so far
  Work moves_;    // by how much work that happens now moves
  Work given_;    // so far, instances included
  /// By how much work of the record itself moves: (work given to the stream, instances not
  /// included, after which; by how much).
  std::vector<std::vector<std::pair<int64_t, int64_t>>> steps_;
  /// By micro-batch and number of an instance: by how much its work moves.
  std::map<std::pair<int64_t, int64_t>, Work> of_instances_;
};

}  // namespace viaduct
