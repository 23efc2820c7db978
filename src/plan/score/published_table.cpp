#include "plan/score/published_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <vector>

#include "base/error.h"

namespace viaduct {
namespace {

using Columns = std::vector<std::string>;

const Columns kThroughput{"model", "hardware"};
const Columns kSpeeds{"tokens_per_sec_per_gpu", "step_time_s", "tflops_per_gpu"};
const Columns kMemory{"hardware", "layers", "hidden", "mem_max_allocated_bytes"};

Columns missing(const CsvTable& table, const Columns& wanted) {
  Columns missing;
  for (const std::string& column : wanted)
    if (!table.has(column)) missing.push_back(column);
  return missing;
}

}  // namespace

std::string PublishedRow::id() const {
  const std::string id = text("id");
  return id.empty() ? fmt::format("line {}", row_->line) : id;
}

bool PublishedRow::notes_mention(std::string_view words) const {
  return text("notes").find(words) != std::string::npos;
}

std::optional<double> PublishedRow::number(std::string_view column) const {
  const std::string cell = text(column);
  if (cell.empty()) return {};
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || end != cell.data() + cell.size() || !std::isfinite(value) ||
      value <= 0)
    throw UnsupportedRow(fmt::format("{}: expected a number above 0, found {}", column, cell));
  return value;
}

std::optional<int64_t> PublishedRow::count(std::string_view column) const {
  const std::optional<double> value = number(column);
  if (!value) return {};
  if (*value != std::floor(*value) || *value > 1e15)
    throw UnsupportedRow(
        fmt::format("{}: expected a whole number, found {}", column, text(column)));
  return static_cast<int64_t>(*value);
}

int64_t PublishedRow::needed_count(std::string_view column) const {
  const auto value = count(column);
  if (!value) throw UnsupportedRow(fmt::format("the source does not state {}", column));
  return *value;
}

bool PublishedRow::flag(std::string_view column) const {
  const std::string cell = text(column);
  return cell == "1" || cell == "yes" || cell == "true";
}

PublishedKind published_kind(const CsvTable& table, const std::string& origin) {
  const Columns no_memory = missing(table, kMemory);
  if (no_memory.empty()) return PublishedKind::memory;
  Columns no_throughput = missing(table, kThroughput);
  if (missing(table, kSpeeds).size() == kSpeeds.size())
    no_throughput.push_back(fmt::format("one of {}", fmt::join(kSpeeds, ", ")));
  VIADUCT_CHECK(ConfigError, no_throughput.empty(),
                "{}: expected a table of throughput (its column {} is missing) or one of memory "
                "(its column {} is missing)",
                origin, fmt::join(no_throughput, ", "), fmt::join(no_memory, ", "));
  return PublishedKind::throughput;
}

}  // namespace viaduct
