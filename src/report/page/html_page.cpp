#include "report/page/html_page.h"

#include <fmt/format.h>

#include <cstdint>

#include "base/markup.h"

namespace viaduct {
namespace {

// Colours have names here so that charts also follow the reader's scheme.
constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1d2430; --faint: #667085; --line: #d9dee7;
  --shade: #f4f6f9; --good: #1a7f4b; --warning: #a34b00; --c0: #2f6fb7; --c1: #d9762b; --c2: #3c9a5f; --c3: #b0468f;
  --c4: #8a6d3b; --c5: #5a5fc7; --c6: #c0392b; --c7: #7d8894; --c8: #0b7a75; --c9: #b08900;
  --c10: #6b4fa1; --c11: #9c5b45; }
@media (prefers-color-scheme: dark) { :root { --paper: #14181f; --ink: #e4e8ee; --faint: #98a2b3; --line: #333c49;
  --shade: #1d232c; --good: #5ec28c; --warning: #f0a35a; --c0: #6ea8e5; --c1: #f0a05f; --c2: #6cc790; --c3: #dc86c1;
  --c4: #c4a36a; --c5: #9a9ef0; --c6: #ec7a6e; --c7: #a4aebb; --c8: #4fbdb7; --c9: #e0bd4a;
  --c10: #a88be0; --c11: #cf9580; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, "Segoe UI", Roboto, sans-serif; }
main { max-width: 100rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0; }
h2 { font-size: 1.15rem; margin: 2.4rem 0 .6rem; padding-top: .6rem; border-top: 1px solid var(--line); }
.subtitle { color: var(--faint); margin: .3rem 0 1.6rem; }
p { margin: .5rem 0; max-width: 46rem; }
dl.headlines { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .75rem; margin: 0; }
dl.headlines div { background: var(--shade); border-radius: .4rem; padding: .7rem .9rem; display: flex;
  flex-direction: column-reverse; }
dl.headlines dd { margin: 0; font-size: 1.3rem; font-weight: 600; font-variant-numeric: tabular-nums; }
dl.headlines dt { color: var(--faint); font-size: .85rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; margin: .6rem 0; }
th, td { text-align: left; padding: .3rem .9rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--faint); font-weight: 600; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.note { border-left: 3px solid var(--line); padding: .1rem .8rem; margin: .5rem 0; max-width: 50rem; }
.note.good { border-color: var(--good); } .note.warning { border-color: var(--warning); }
h3 { font-size: 1rem; margin: 0 0 .3rem; }
figure { margin: .8rem 0 1.4rem; } figcaption { color: var(--faint); font-size: .9rem; }
svg { width: 100%; height: auto; display: block; } img { max-width: 100%; height: auto; display: block; }
svg text { fill: var(--faint); font: 11px system-ui, sans-serif; } svg text.ink { fill: var(--ink); }
details { margin: .8rem 0; } summary { cursor: pointer; color: var(--faint); }
pre { background: var(--shade); padding: .8rem; overflow-x: auto; font-size: .8rem; border-radius: .4rem; }
@media print { main { max-width: none; padding: 0; } h2 { break-after: avoid; } figure, tr { break-inside: avoid; } }
)";

bool is_number(std::string_view cell) {
  if (cell.empty()) return false;
  if (cell.front() >= '0' && cell.front() <= '9') return true;
  return cell.size() > 1 && (cell.front() == '-' || cell.front() == '+') && cell[1] >= '0' &&
         cell[1] <= '9';
}

/// RFC 4648, section 4.
std::string base64(std::string_view bytes) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k)
      group = group << 8 | (i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0u);
    for (size_t k = 0; k < 4; ++k)
      out += i + k <= bytes.size() ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

}  // namespace

HtmlPage::HtmlPage(std::string_view title, std::string_view subtitle)
    : title_(escaped_markup(title)) {
  body_ =
      fmt::format("<h1>{}</h1>\n<p class=\"subtitle\">{}</p>\n", title_, escaped_markup(subtitle));
}

void HtmlPage::headlines(const std::vector<Headline>& figures) {
  body_ += "<dl class=\"headlines\">\n";
  for (const Headline& figure : figures)
    body_ += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", escaped_markup(figure.name),
                         escaped_markup(figure.value));
  body_ += "</dl>\n";
}

void HtmlPage::section(std::string_view heading) {
  body_ += fmt::format("<h2>{}</h2>\n", escaped_markup(heading));
}

void HtmlPage::paragraph(std::string_view text) {
  body_ += fmt::format("<p>{}</p>\n", escaped_markup(text));
}

void HtmlPage::note(NoteKind kind, std::string_view text) {
  const std::string_view name = kind == NoteKind::good      ? " good"
                                : kind == NoteKind::warning ? " warning"
                                                            : "";
  body_ += fmt::format("<p class=\"note{}\">{}</p>\n", name, escaped_markup(text));
}

void HtmlPage::table(const std::vector<std::string>& header,
                     const std::vector<std::vector<std::string>>& rows) {
  // A column is aligned right if its cells are.
  std::vector<bool> right(header.size(), false);
  for (size_t column = 0; column < header.size(); ++column)
    for (const auto& row : rows)
      if (column < row.size() && is_number(row[column])) right[column] = true;
  const auto cell = [&](std::string_view tag, std::string_view text, size_t column,
                        std::string_view attributes) {
    body_ += fmt::format("<{0}{1}{2}>{3}</{0}>", tag, attributes,
                         column < right.size() && right[column] ? " class=\"number\"" : "",
                         escaped_markup(text));
  };
  body_ += "<div class=\"scroll\"><table>\n<thead><tr>";
  for (size_t column = 0; column < header.size(); ++column)
    cell("th", header[column], column, " scope=\"col\"");
  body_ += "</tr></thead>\n<tbody>\n";
  for (const auto& row : rows) {
    body_ += "<tr>";
    for (size_t column = 0; column < row.size(); ++column) cell("td", row[column], column, "");
    body_ += "</tr>\n";
  }
  body_ += "</tbody></table></div>\n";
}

void HtmlPage::figure(std::string_view title, std::string_view svg, std::string_view caption) {
  std::string heading(title);
  if (!heading.empty() && heading[0] >= 'a' && heading[0] <= 'z') heading[0] -= 'a' - 'A';
  body_ += fmt::format("<figure>\n<h3>{}</h3>\n{}<figcaption>{}</figcaption>\n</figure>\n",
                       escaped_markup(heading), svg, escaped_markup(caption));
}

void HtmlPage::image(std::string_view title, std::string_view svg, std::string_view caption) {
  body_ += fmt::format(
      "<figure>\n<h3>{}</h3>\n<img src=\"data:image/svg+xml;base64,{}\" "
      "alt=\"{}\">\n<figcaption>{}</figcaption>\n"
      "</figure>\n",
      escaped_markup(title), base64(svg), escaped_markup(caption), escaped_markup(caption));
}

void HtmlPage::details(std::string_view summary, std::string_view text) {
  body_ += fmt::format("<details><summary>{}</summary>\n<pre>{}</pre>\n</details>\n",
                       escaped_markup(summary), escaped_markup(text));
}

std::string HtmlPage::document() const {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n<main>\n{}</main>\n</body>\n</"
      "html>\n",
      title_, kStyle, body_);
}

}  // namespace viaduct
