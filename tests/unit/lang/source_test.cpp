#include "lang/source.h"

#include <gtest/gtest.h>

#include "lang/diagnostics.h"

namespace uscope::lang {
namespace {

TEST(Source, LinesAndColumnsCountFromOne) {
  Source source("a.bt", "ab\n\ncd");
  EXPECT_EQ(source.locate(0).line, 1u);
  EXPECT_EQ(source.locate(4).line, 3u);
  EXPECT_EQ(source.locate(5).column, 2u);
  EXPECT_EQ(source.locate(99).column, 3u);
  EXPECT_EQ(source.line(1), "ab");
  EXPECT_EQ(source.line(2), "");
  EXPECT_EQ(source.line(3), "cd");
  EXPECT_EQ(source.line(4), "");
}

TEST(Diagnostics, MarksThePlaceAndGivesTheHint) {
  SourceSet sources;
  sources.add("stdin", "BEGIN { foo() }");
  Diagnostics diagnostics;
  diagnostics.error(Span{8, 13, 0}, "Unknown function: 'foo'").hint = "did you mean 'for'?";
  EXPECT_EQ(diagnostics.render(sources),
            "stdin:1:9-14: ERROR: Unknown function: 'foo'\n"
            "BEGIN { foo() }\n"
            "        ~~~~~\n"
            "HINT: did you mean 'for'?\n");
}

TEST(Diagnostics, SeveralLinesAreShownWithoutMarker) {
  SourceSet sources;
  sources.add("x.bt", "a\nbb\nccc\n");
  Diagnostics diagnostics;
  diagnostics.warning(Span{2, 8, 0}, "odd");
  EXPECT_EQ(diagnostics.render(sources), "x.bt:2-3: WARNING: odd\nbb\nccc\n");
  EXPECT_FALSE(diagnostics.has_errors());
}

TEST(Diagnostics, TabsKeepTheMarkerUnderTheText) {
  SourceSet sources;
  sources.add("x", "\tab");
  Diagnostics diagnostics;
  diagnostics.error(Span{2, 3, 0}, "m");
  EXPECT_EQ(diagnostics.render(sources), "x:1:3-4: ERROR: m\n\tab\n\t ~\n");
}

TEST(Diagnostics, ErrorsComeBeforeWarningsAndNotesFollowTheirError) {
  SourceSet sources;
  sources.add("x", "abc");
  Diagnostics diagnostics;
  diagnostics.warning(Span{0, 1, 0}, "w");
  diagnostics.error(Span{1, 2, 0}, "e").notes.push_back({Span{2, 3, 0}, "expanded from"});
  EXPECT_EQ(diagnostics.render(sources),
            "x:1:2-3: ERROR: e\nabc\n ~\nx:1:3-4: ERROR: expanded from\nabc\n  ~\n"
            "x:1:1-2: WARNING: w\nabc\n~\n");
  EXPECT_EQ(diagnostics.render(sources, false).find("WARNING"), std::string::npos);
}

TEST(Diagnostics, AFloodIsCountedButNotKept) {
  Diagnostics diagnostics;
  for (int i = 0; i < 10000; ++i) diagnostics.error(Span{}, "again");
  EXPECT_EQ(diagnostics.error_count(), 10000u);
  EXPECT_EQ(diagnostics.all().size(), Diagnostics::kMaxKept);
}

}  // namespace
}  // namespace uscope::lang
