#include "base/csv.h"

#include <algorithm>

#include "base/error.h"

namespace viaduct {
namespace {

std::string trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(kSpaces) - first + 1));
}

class CsvReader {
 public:
  CsvReader(std::string_view text, const std::string& origin) : text_(text), origin_(origin) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
  }

  bool at_end() const { return at_ >= text_.size(); }

  CsvRow row() {
    CsvRow row{line_, {}};
    while (true) {
      row.cells.push_back(cell());
      if (!at_end() && text_[at_] == ',') {
        ++at_;
        continue;
      }
      end_line();
      return row;
    }
  }

 private:
  std::string cell() { return !at_end() && text_[at_] == '"' ? quoted() : plain(); }

  std::string plain() {
    const size_t end = std::min(text_.find_first_of(",\n", at_), text_.size());
    std::string cell(text_.substr(at_, end - at_));
    at_ = end;
    if (cell.ends_with('\r') && (at_end() || text_[at_] == '\n')) cell.pop_back();
    VIADUCT_CHECK(ConfigError, cell.find('\0') == std::string::npos,
                  "{}, line {}: expected text, found a zero byte", origin_, line_);
    return cell;
  }

  /// Two quotes inside are one.
  std::string quoted() {
    const int64_t begun = line_;
    std::string cell;
    for (++at_;; ++at_) {
      VIADUCT_CHECK(ConfigError, !at_end(), "{}, line {}: a quoted cell has no closing quote",
                    origin_, begun);
      const char c = text_[at_];
      if (c == '"') {
        if (at_ + 1 < text_.size() && text_[at_ + 1] == '"') {
          ++at_;
        } else {
          break;
        }
      }
      if (c == '\n') ++line_;
      cell += c;
    }
    ++at_;
    const std::string_view rest = text_.substr(at_);
    VIADUCT_CHECK(
        ConfigError,
        rest.empty() || rest[0] == ',' || rest[0] == '\n' || rest.starts_with("\r\n") ||
            rest == "\r",
        "{}, line {}: expected a comma or the end of the line after a quoted cell, found {}",
        origin_, line_, rest.substr(0, 1));
    return cell;
  }

  void end_line() {
    if (!at_end() && text_[at_] == '\r') ++at_;
    if (!at_end() && text_[at_] == '\n') ++at_;
    ++line_;
  }

  std::string_view text_;
  const std::string& origin_;
  size_t at_ = 0;
  int64_t line_ = 1;
};

}  // namespace

bool CsvTable::has(std::string_view column) const {
  return std::find(columns.begin(), columns.end(), column) != columns.end();
}

std::string CsvTable::cell(const CsvRow& row, std::string_view column) const {
  const auto found = std::find(columns.begin(), columns.end(), column);
  if (found == columns.end()) return {};
  return trimmed(row.cells[static_cast<size_t>(found - columns.begin())]);
}

CsvTable parse_csv(std::string_view text, const std::string& origin) {
  CsvTable table;
  CsvReader reader(text, origin);
  while (!reader.at_end()) {
    CsvRow row = reader.row();
    if (row.cells.size() == 1 && trimmed(row.cells[0]).empty()) continue;
    if (table.columns.empty()) {
      for (const std::string& cell : row.cells) {
        std::string name = trimmed(cell);
        VIADUCT_CHECK(ConfigError, !name.empty(), "{}, line {}: column {} has no name", origin,
                      row.line, table.columns.size() + 1);
        VIADUCT_CHECK(ConfigError, !table.has(name), "{}, line {}: two columns are named {}",
                      origin, row.line, name);
        table.columns.push_back(std::move(name));
      }
      continue;
    }
    VIADUCT_CHECK(ConfigError, row.cells.size() == table.columns.size(),
                  "{}, line {}: expected {} cells as the first line has, found {}", origin,
                  row.line, table.columns.size(), row.cells.size());
    table.rows.push_back(std::move(row));
  }
  VIADUCT_CHECK(ConfigError, !table.columns.empty(),
                "{}: expected a first line with the names of columns, found nothing", origin);
  return table;
}

}  // namespace viaduct
