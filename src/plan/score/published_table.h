#pragma once
// A table of published training runs: its rows, whatever columns it has.

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/csv.h"

namespace viaduct {

/// Why a row cannot be predicted; the row is listed with it.
class UnsupportedRow : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A row of a table that outlives it. Columns that the table does not have are empty.
class PublishedRow {
 public:
  PublishedRow(const CsvTable& table, const CsvRow& row) : table_(&table), row_(&row) {}

  /// The cell of column `id`, else the line: "line 7".
  std::string id() const;
  std::string text(std::string_view column) const { return table_->cell(*row_, column); }
  bool notes_mention(std::string_view words) const;
  /// Whole numbers of at least 1 ("8", "8.0"), nothing for an empty cell; UnsupportedRow for
  /// others.
  std::optional<int64_t> count(std::string_view column) const;
  /// UnsupportedRow for an empty cell, too.
  int64_t needed_count(std::string_view column) const;
  /// Numbers above 0, nothing for an empty cell; UnsupportedRow for others.
  std::optional<double> number(std::string_view column) const;
  /// "1", "yes" or "true".
  bool flag(std::string_view column) const;

 private:
  const CsvTable* table_;
  const CsvRow* row_;
};

enum class PublishedKind { throughput, memory };

/// ConfigError unless the columns are those of a table of throughput (model, hardware, and a figure
/// of speed) or of memory (hardware, layers, hidden, mem_max_allocated_bytes): which are missing.
PublishedKind published_kind(const CsvTable& table, const std::string& origin);

}  // namespace viaduct
