#include "symbols/short_names.h"

#include <gtest/gtest.h>

namespace uscope::symbols {
namespace {

TEST(ShortCppName, StdAliasesAndDefaultArguments) {
  EXPECT_EQ(short_cpp_name("std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >"),
            "std::string");
  EXPECT_EQ(short_cpp_name("std::basic_string_view<wchar_t, std::char_traits<wchar_t>>"),
            "std::wstring_view");
  EXPECT_EQ(short_cpp_name("std::basic_ostream<char, std::char_traits<char> >&"), "std::ostream&");
  EXPECT_EQ(short_cpp_name("std::vector<std::vector<int, std::allocator<int> >, "
                           "std::allocator<std::vector<int, std::allocator<int> > > >"),
            "std::vector<std::vector<int>>");
  EXPECT_EQ(
      short_cpp_name("std::map<int, long, std::less<int>, std::allocator<std::pair<int const, long> > >"),
      "std::map<int, long>");
  EXPECT_EQ(
      short_cpp_name("std::map<int, long, std::less<int>, std::allocator<std::pair<const int, long> > >"),
      "std::map<int, long>");
  EXPECT_EQ(short_cpp_name("std::unordered_map<K, V, std::hash<K>, std::equal_to<K>, "
                           "std::allocator<std::pair<K const, V> > >"),
            "std::unordered_map<K, V>");
  EXPECT_EQ(short_cpp_name("std::unique_ptr<Foo, std::default_delete<Foo> >"), "std::unique_ptr<Foo>");
}

TEST(ShortCppName, KeepsWhatIsNotTheDefault) {
  EXPECT_EQ(short_cpp_name("std::vector<int, arena<int> >"), "std::vector<int, arena<int>>");
  EXPECT_EQ(
      short_cpp_name("std::map<int, long, std::greater<int>, std::allocator<std::pair<int const, long> > >"),
      "std::map<int, long, std::greater<int>>");
  EXPECT_EQ(short_cpp_name("std::map<int, long, std::less<int>, arena<int> >"),
            "std::map<int, long, std::less<int>, arena<int>>");
  EXPECT_EQ(short_cpp_name("my::vector<int, std::allocator<int> >"), "my::vector<int, std::allocator<int>>");
  EXPECT_EQ(short_cpp_name("std::basic_string<char, my_traits, std::allocator<char> >"),
            "std::basic_string<char, my_traits>");
}

TEST(ShortCppName, OperatorsLambdasAndFunctions) {
  EXPECT_EQ(short_cpp_name("ns::operator<< <int>"), "ns::operator<< <int>");
  EXPECT_EQ(short_cpp_name("std::operator<(A, B)"), "std::operator<(A, B)");
  EXPECT_EQ(short_cpp_name("X::operator->()"), "X::operator->()");
  EXPECT_EQ(short_cpp_name("f(std::vector<int, std::allocator<int> >)::{lambda(int)#1}"),
            "f(std::vector<int>)::{lambda(int)#1}");
  EXPECT_EQ(short_cpp_name("std::function<void (std::__cxx11::basic_string<char, std::char_traits<char>, "
                           "std::allocator<char> >)>"),
            "std::function<void (std::string)>");
}

TEST(ShortCppName, BrokenTextComesBackAsItIs) {
  for (const char* text : {"std::vector<int", "a<b<c>", "x(", "std::vector<>", "<", "a::<", "a<(>"}) {
    EXPECT_EQ(short_cpp_name(text), text);
  }
  const std::string deep(5000, '(');
  EXPECT_EQ(short_cpp_name("a::" + deep), "a::" + deep);
  std::string nested = "x";
  for (int i = 0; i < 3000; ++i) nested = "a<" + nested;
  EXPECT_EQ(short_cpp_name(nested), nested);
}

TEST(ShortRustName, PreludeNamesAndDefaultAllocator) {
  EXPECT_EQ(short_rust_name(
                "core::result::Result<alloc::vec::Vec<u8, alloc::alloc::Global>, std::io::error::Error>"),
            "Result<Vec<u8>, std::io::error::Error>");
  EXPECT_EQ(short_rust_name("my::alloc::vec::Vec<u8>"), "my::alloc::vec::Vec<u8>");
  EXPECT_EQ(short_rust_name("&mut alloc::string::String"), "&mut String");
}

TEST(ShortGoName, ImportPathsLoseTheirFolders) {
  EXPECT_EQ(short_go_name("map[string]*github.com/miekg/dns.Msg"), "map[string]*dns.Msg");
  EXPECT_EQ(short_go_name("github.com/foo/bar/v2.T"), "bar.T");
  EXPECT_EQ(short_go_name("gopkg.in/yaml%2ev2.Node"), "yaml.v2.Node");
  EXPECT_EQ(short_go_name("struct { A int \"json:\\\"a/b\\\"\" }"), "struct { A int \"json:\\\"a/b\\\"\" }");
  EXPECT_EQ(short_go_name("func(net/http.ResponseWriter, *net/http.Request)"),
            "func(http.ResponseWriter, *http.Request)");
  EXPECT_EQ(short_go_name("main.server"), "main.server");
}

}  // namespace
}  // namespace uscope::symbols
