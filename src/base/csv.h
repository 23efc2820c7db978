#pragma once
// Tables in CSV (RFC 4180): the first line names the columns, cells with commas, quotes or line
// breaks are quoted.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace viaduct {

struct CsvRow {
  int64_t line = 0;                // of its first character, the first line is 1
  std::vector<std::string> cells;  // as many as the table has columns
};

struct CsvTable {
  std::vector<std::string> columns;
  std::vector<CsvRow> rows;

  bool has(std::string_view column) const;
  /// The cell without the spaces around it; empty where the table has no such column.
  std::string cell(const CsvRow& row, std::string_view column) const;
};

/// `origin` names the text in messages. Empty lines are left out, and a byte order mark and
/// carriage returns at line ends are ignored. ConfigError with the line for rows with more or
/// fewer cells than the first line names, quotes that do not end or end inside a cell, zero bytes,
/// and columns without a name or with that of another one.
CsvTable parse_csv(std::string_view text, const std::string& origin);

}  // namespace viaduct
