#pragma once
// Predictions of all rows of a table of published runs, compared with the published figures.
//
// From specification sheets: Gpu::step_share is used here only where `constants` gives one.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/csv.h"
#include "plan/predict.h"
#include "plan/score/published_table.h"

namespace viaduct {

/// By name of a GPU of the catalog, its Gpu::step_share: the one free constant of a GPU.
using ScoreConstants = std::map<std::string, double>;

/// The YAML text "step_share: {h100-sxm: 0.95}". ConfigError for unknown GPUs (with the nearest),
/// other fields, and shares that are not above 0.3 and at most 1.5.
ScoreConstants parse_score_constants(std::string_view text, const std::string& origin);

/// A row with both figures: tokens a second a GPU, or the peak in bytes.
struct ScoredRow {
  std::string id;
  std::string gpu;  // of the catalog
  double predicted = 0, published = 0;
  std::string note;
  bool fits = true;  // into the GPU
  double error() const { return predicted / published - 1; }
};

/// A rank's memory by how long it is held.
struct MemoryParts {
  double staying = 0;  // also between steps: weights, gradients, optimizer states, workspaces
  double passing = 0;  // on top of it at the fullest moment of a step
  double peak() const { return staying + passing; }
};

/// The memory of a row that states its peak, or that says that it ran out of memory: of the fullest
/// stage, in a table of memory of the last stage.
struct JudgedMemory {
  std::string id;
  MemoryParts predicted;
  /// What of it is not the dry run's: held by the published run's libraries.
  double library_bytes = 0;
  double capacity_bytes = 0;
  std::optional<double> published_bytes;  // the peak
  std::optional<MemoryParts> published;   // where the source states both
  bool published_fits = true;
  bool fits() const { return predicted.peak() <= capacity_bytes; }
};

struct UnsupportedEntry {
  std::string id, reason;
};

struct ErrorSummary {
  double mape = 0, median = 0, p90 = 0, bias = 0;  // of relative errors; bias is signed
};

struct Score {
  PublishedKind kind = PublishedKind::throughput;
  std::vector<ScoredRow> rows;                // in the order of the table, as are the others
  std::vector<JudgedMemory> memory;           // of rows of both kinds
  std::vector<UnsupportedEntry> unsupported;  // every row that is not in `rows`
};

struct ScoreSettings {
  ScoreConstants constants;
  int threads = 1;
};

/// ConfigError if the columns are not of a known kind.
Score score_table(const CsvTable& table, const std::string& origin, const ScoreSettings& settings);

/// Of relative errors; empty without any. The 90th percentile is the smallest error that 90 % of
/// the rows do not exceed; the median of an even number the mean of the two in the middle.
std::optional<ErrorSummary> summary_of(const std::vector<double>& errors);
std::optional<ErrorSummary> summary_of(const std::vector<ScoredRow>& rows);

/// Relative errors of one part of memory, in the rows that state it.
std::vector<double> errors_of(const std::vector<JudgedMemory>& rows, double MemoryParts::*part);

}  // namespace viaduct
