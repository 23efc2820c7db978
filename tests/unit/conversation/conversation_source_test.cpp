// Files of conversations, cut into pieces that are read one by one.

#include "conversation/conversation_source.h"

#include <gtest/gtest.h>

#include "base/output_file.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

TEST(ConversationSources, AreCutIntoPiecesOfBoundedSize) {
  const test::TemporaryFolder folder;
  for (const bool list : {false, true}) {
    std::string text = list ? "[" : "";
    std::vector<std::string> expected;
    for (int i = 0; i < 50; ++i) {
      expected.push_back("{\"n\": \"" + std::string(static_cast<size_t>(i * 7 % 40), 'x') + "\"}");
      text += (i > 0 && list ? ",\n" : "") + expected.back() + (list ? "" : "\n");
    }
    if (list) text += "]";
    write_file_atomically(folder / "x.json", text);
    ConversationSource source({folder / "x.json", folder / "x.json"}, 64);
    std::vector<std::string> lines;
    while (const auto piece = source.next()) {
      EXPECT_EQ(piece->first, static_cast<int64_t>(lines.size() % 50) + 1);
      EXPECT_LT(piece->text.size(), 200u);
      EXPECT_EQ(piece->list, list);
      std::string_view rest = piece->text;
      while (!rest.empty()) {
        const size_t end = rest.find('\n');
        std::string_view line = rest.substr(0, end);
        while (line.starts_with(' ')) line.remove_prefix(1);
        lines.emplace_back(line);
        rest.remove_prefix(end + 1);
      }
    }
    ASSERT_EQ(lines.size(), 100u);
    for (size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(lines[i], expected[i % 50]);
  }
}

}  // namespace
}  // namespace viaduct
