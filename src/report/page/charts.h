#pragma once
// Charts as SVG elements inside a page of `HtmlPage`, whose colours they use. The same input gives
// the same bytes.

#include <string>
#include <utility>
#include <vector>

namespace viaduct {

struct Point {
  double x = 0, y = 0;
};

/// `points` by x, those without a finite y left out.
struct Series {
  std::string name;
  std::vector<Point> points;
  bool dots = false;   // single marks instead of a line, for few points
  bool faint = false;  // behind the others: values of which another series is the mean
};

struct LineChart {
  std::string label;  // what it shows, for readers who do not see it
  std::string x_name, y_name;
  std::vector<Series> series;
  std::vector<std::pair<std::string, double>> limits;  // horizontal lines, with their names
  std::vector<std::pair<std::string, double>> marks;   // vertical ones, at places of x
  bool from_zero = false;                              // the y axis begins at 0
  bool bytes = false;                                  // y is in bytes
};

/// Means over the steps around each point (a fiftieth of them), to see a trend in values that jump;
/// nothing for fewer than 50 points.
Series smoothed(const Series& series);

/// A chart of at most some 100 KB, however many points there are: where several fall into one
/// column of pixels, the line goes through the smallest and the largest of them, so no spike is
/// lost.
std::string draw(const LineChart& chart);

/// Bars made of consecutive parts.
struct BarChart {
  std::string label;
  std::vector<std::string> parts;  // names, in the order of colours
  struct Bar {
    std::string name, total;  // `total` is the text after the bar
    std::vector<double> values;
  };
  std::vector<Bar> bars;
  double limit = 0;  // a vertical line; 0: none
  std::string limit_name;
};
std::string draw(const BarChart& chart);

/// Spans of time in rows.
struct SpanChart {
  std::string label;
  std::vector<std::string> kinds;  // names, in the order of colours
  struct Span {
    double begin = 0, end = 0;
    int kind = 0;
  };
  std::vector<std::pair<std::string, std::vector<Span>>> rows;
  double end = 0;  // of the time axis, in seconds
};
std::string draw(const SpanChart& chart);

}  // namespace viaduct
