#include "base/terminal_text.h"

#include <gtest/gtest.h>

namespace viaduct {
namespace {

TEST(TerminalText, TakesWhatATerminalWouldObey) {
  EXPECT_EQ(terminal_text("plain\n\ttext: Grüße, 漢字, 🙂"),
            "plain\n\ttext: Grüße, 漢字, 🙂");
  EXPECT_EQ(terminal_text("\x1b[2J\a\x7f\b"), "^[[2J^G^?^H");
  EXPECT_EQ(terminal_text("a\r\nb\rc"), "a\nbc");
  EXPECT_EQ(terminal_text("\u009b31m\u00a0"), "\uFFFD31m\u00a0");
  EXPECT_EQ(terminal_text(std::string_view("\0", 1)), "^@");
}

}  // namespace
}  // namespace viaduct
