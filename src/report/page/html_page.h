#pragma once
// A self-contained HTML page: no scripts, no fonts or images from elsewhere, readable in light, in
// dark and on paper.

#include <string>
#include <string_view>
#include <vector>

namespace viaduct {

/// A figure at the head of a page: "1.23 s" with "step" below it.
struct Headline {
  std::string value, name;
};

enum class NoteKind { plain, good, warning };

class HtmlPage {
 public:
  /// All texts are escaped here.
  HtmlPage(std::string_view title, std::string_view subtitle);

  void headlines(const std::vector<Headline>& figures);
  void section(std::string_view heading);
  void paragraph(std::string_view text);
  void note(NoteKind kind, std::string_view text);
  /// Cells that begin with a digit or a sign are right-aligned.
  void table(const std::vector<std::string>& header,
             const std::vector<std::vector<std::string>>& rows);
  /// An SVG element that our own code drew, with a title over it and its caption below.
  void figure(std::string_view title, std::string_view svg, std::string_view caption);
  /// An SVG document that was read from a file: as an image, so that nothing in it can run.
  void image(std::string_view title, std::string_view svg, std::string_view caption);
  /// A preformatted text, folded under `summary`.
  void details(std::string_view summary, std::string_view text);

  std::string document() const;

 private:
  std::string title_, body_;
};

}  // namespace viaduct
