// Charts of the report page: no data is lost or invented, however much there is.

#include "report/page/charts.h"

#include <gmock/gmock.h>

#include <cmath>
#include <regex>

#include "base/markup.h"
#include "report/page/chart_parts.h"
#include "report/page/html_page.h"

namespace viaduct {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// Smallest and largest y of the first path; y grows downwards.
std::pair<double, double> extent(const std::string& svg) {
  const std::string path = svg.substr(svg.find("<path d=\""));
  std::pair<double, double> found{1e9, -1e9};
  const std::regex point("[ML][0-9.]+ ([0-9.]+)");
  for (auto at = std::sregex_iterator(path.begin(), path.end(), point);
       at != std::sregex_iterator(); ++at) {
    found.first = std::min(found.first, std::stod((*at)[1]));
    found.second = std::max(found.second, std::stod((*at)[1]));
  }
  return found;
}

TEST(Charts, ASpikeAmongAMillionPointsIsSeenInASmallDrawing) {
  LineChart chart{"loss", "step", "loss", {{"loss", {}, false}}, {}};
  for (int i = 0; i < 1000000; ++i)
    chart.series[0].points.push_back({double(i), i == 543210 ? 9.0 : 1 + 0.001 * (i % 7)});
  const std::string svg = draw(chart);
  EXPECT_LT(svg.size(), 100000u);
  EXPECT_NEAR(extent(svg).first, 24, 0.2);  // the top of the chart
  EXPECT_NEAR(extent(svg).second, 214, 0.2);
}

TEST(Charts, PointsThatAreNoNumbersAreLeftOut) {
  LineChart chart{
      "loss", "step", "loss", {{"loss", {{1, 2}, {2, std::nan("")}, {3, 4}}, false}}, {}};
  EXPECT_THAT(draw(chart), Not(HasSubstr("nan")));
  chart.series[0].points = {{1, 5}};
  EXPECT_THAT(draw(chart), Not(HasSubstr("nan")));
  chart.series[0].points.clear();
  EXPECT_THAT(draw(chart), HasSubstr("</svg>"));
}

TEST(Charts, AxesHaveRoundNumbers) {
  EXPECT_THAT(round_ticks(0, 10, 5), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(round_ticks(3.9, 10.1, 5), ElementsAre(4, 6, 8, 10));
  EXPECT_THAT(round_ticks(-1, 1, 5), ElementsAre(-1, -0.5, 0, 0.5, 1));
  EXPECT_THAT(round_ticks(0, 3.0 * (1 << 30), 4, true),
              ElementsAre(0, 1 << 30, 2.0 * (1 << 30), 3.0 * (1 << 30)));
  EXPECT_THAT(round_ticks(7, 7, 5), ElementsAre(7));
  EXPECT_EQ(tick_text(1200), "1,200");
  EXPECT_EQ(tick_text(-123456), "-123,456");
  EXPECT_EQ(tick_text(0.00025), "0.00025");
}

TEST(Charts, BarsAreAsLongAsTheirValues) {
  const std::string svg = draw(BarChart{"time", {"a", "b"}, {{"x", "3 s", {1, 2}}}, 0, ""});
  EXPECT_THAT(svg, HasSubstr("width=\"146.67\""));
  EXPECT_THAT(svg, HasSubstr("width=\"293.33\""));
}

TEST(Charts, SpansOfAHugeScheduleAreMerged) {
  SpanChart chart{"steps", {"forward"}, {{"stage 0", {}}}, 100};
  for (int i = 0; i < 100000; ++i) chart.rows[0].second.push_back({i * 1e-3, (i + 0.5) * 1e-3, 0});
  EXPECT_LT(draw(chart).size(), 200000u);
}

TEST(HtmlPage, TextIsNeverMarkup) {
  const std::string evil = "<script>alert(\"1\")</script>&\x01";
  HtmlPage page(evil, evil);
  page.headlines({{evil, evil}});
  page.section(evil);
  page.paragraph(evil);
  page.note(NoteKind::warning, evil);
  page.table({evil}, {{evil}});
  page.figure(
      evil,
      draw(LineChart{evil, evil, evil, {{evil, {{0, 1}}, false}, {evil, {{0, 1}}, false}}, {}}),
      evil);
  page.figure(evil, draw(BarChart{evil, {evil}, {{evil, evil, {1}}}, 1, evil}), evil);
  page.image(evil, evil, evil);
  page.details(evil, evil);
  EXPECT_THAT(page.document(), Not(HasSubstr("<script")));
  EXPECT_THAT(page.document(), Not(HasSubstr("\x01")));
  EXPECT_EQ(escaped_markup("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
}

TEST(HtmlPage, ImagesAreInThePage) {
  for (const auto& [text, code] : {std::pair("M", "TQ=="), {"Ma", "TWE="}, {"Man", "TWFu"}}) {
    HtmlPage page("t", "s");
    page.image("Load", text, "c");
    EXPECT_THAT(page.document(), HasSubstr(std::string("base64,") + code + "\""));
    EXPECT_THAT(page.document(), HasSubstr("<h3>Load</h3>"));
  }
}

TEST(HtmlPage, NumbersStandAtTheRight) {
  HtmlPage page("t", "s");
  page.table({"name", "value"}, {{"a", "12 %"}, {"b", "–"}});
  EXPECT_THAT(page.document(), HasSubstr("<td>a</td><td class=\"number\">12 %</td>"));
  EXPECT_THAT(page.document(), Not(HasSubstr("http")));  // no external resources
}

TEST(LineChart, ATrendIsTheMeanAroundEachPoint) {
  Series jumps{"loss", {}};
  for (int i = 0; i < 200; ++i) jumps.points.push_back({double(i), 10.0 - 0.01 * i + (i % 2)});
  const Series trend = smoothed(jumps);
  ASSERT_EQ(trend.points.size(), 200u);
  EXPECT_EQ(trend.name, "loss, smoothed");
  for (size_t i = 3; i < 197; ++i)
    EXPECT_NEAR(trend.points[i].y, 10.5 - 0.01 * static_cast<double>(i), 0.2) << i;
  EXPECT_EQ(trend.points.front().y, jumps.points.front().y) << "ends stay where they are";
  jumps.points.resize(20);
  EXPECT_TRUE(smoothed(jumps).points.empty());
}

}  // namespace
}  // namespace viaduct
