// Writes calibration tables: one line per row.

#include <fmt/core.h>

#include <cmath>

#include "base/file.h"
#include "config/convert.h"
#include "hardware/calibration_rows.h"

namespace viaduct {
namespace {

using namespace calibration;

/// A row as a map.
struct RowWriter {
  Value value;

  void operator()(std::string_view name, std::string& text, Role role, Names) {
    if (role != Role::optional || !text.empty()) value.set(name, write_value(text));
  }
  void operator()(std::string_view name, int64_t& number, Role) {
    value.set(name, write_value(number));
  }
  void operator()(std::string_view name, double& number, Role) {
    // Four digits: measurements vary by more.
    const double scale = std::pow(10, 3 - std::floor(std::log10(std::abs(number))));
    value.set(name, write_value(number != 0 ? std::round(number * scale) / scale : 0.0));
  }
};

struct SectionWriter {
  std::string text;

  template <class Row>
  void one(const char* name, Row& row) {
    text += fmt::format("{}: {}\n", name, flow(row));
  }
  template <class Row>
  void any_number(const char* name, std::vector<Row>& rows) {
    if (!rows.empty()) return many(name, rows);
    text += fmt::format("{}: []\n", name);
  }
  template <class Row>
  void many(const char* name, std::vector<Row>& rows) {
    text += fmt::format("{}:\n", name);
    for (Row& row : rows) text += fmt::format("  - {}\n", flow(row));
  }
  template <class Row>
  static std::string flow(Row& row) {
    RowWriter writer;
    visit(row, writer);
    return to_flow_yaml(writer.value);
  }
};

}  // namespace

std::string to_yaml(const Calibration& calibration) {
  Calibration table = calibration;  // visitors take references that are not const
  SectionWriter writer{fmt::format("format: {}\nversion: {}\n", kFormat, kVersion)};
  visit_sections(table, writer);
  return writer.text;
}

void save_calibration(const Calibration& calibration, const std::filesystem::path& path) {
  write_file_atomically(path, to_yaml(calibration));
}

}  // namespace viaduct
