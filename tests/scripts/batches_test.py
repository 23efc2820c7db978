#!/usr/bin/env python3
"""cmake/batches.py: sources of a batch define nothing twice in their unnamed namespaces."""

import os
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "cmake"))
import batches


def source(*definitions):
    return "namespace viaduct {\nnamespace {\n\n" + "\n".join(definitions) + "\n\n}  // namespace\n\nvoid outside() {}\n}  // namespace viaduct\n"


def cut(sources, size=16, declared={}):
    return batches.batches(sorted(sources), lambda name: batches.definitions(sources[name]), lambda name: declared.get(name, set()), size)


class Batches(unittest.TestCase):
    def test_size(self):
        self.assertEqual(cut({"a": "", "b": "", "c": ""}, 2), [["a", "b"], ["c"]])

    def test_what_clashes(self):
        for one, other in (
            ("constexpr int kRows = 4;", "constexpr int64_t kRows = 8;"),
            ("constexpr std::string_view kNames[] = {", "constexpr std::array<int, 4> kNames{1,"),
            ("struct Row {", "class Row final : public Base {"),
            ("int rows(int a) {", "int rows(int b) { return b; }"),
            ("template <class T> int rows(const T& a, int n = 1) {", "template <class T>\nlong rows(const T& other,\n          int m) {"),
            ("int rows(int a) {", "constexpr int rows = 3;"),
            ("constexpr int kA = 1, kB = 2;", "constexpr int kB = 3;"),
            ("const Text kA{\"a\", \"b\"},\n    kB{\"b\"};", "const Text kB{};"),
            ("int rows(int a) {", "int rows(double a) {"),
            ("int rows(int a, int b = 2) {", "int rows(int a, int b, const Row& c) {"),
            ("int rows(int a) {", "int rows(const Row& a, int b) {\n}\nvoid fill(Table& table) {\n  table.rows = {rows, 3};\n}"),
            ("using Json = nlohmann::json;", "using Json = nlohmann::ordered_json;"),
            ("using test::rows;", "int rows(int a) {"),
        ):
            self.assertEqual(cut({"a": source(one), "b": source(other)}), [["a"], ["b"]], f"{one} and {other}")

    def test_what_does_not(self):
        for one, other in (
            ("int rows(int a) {", "int rows(const Row& a, int b) {"),
            ("void PrintTo(const Row& a, std::ostream* out) {", "void PrintTo(const Column& a, std::ostream* out) {"),
            ("using Json = nlohmann::json;", "using Json = nlohmann::json;"),
            ("int rows() {\n  int local = 3;\n}", "int local(int a) {"),
            ('const char* text = R"(\nint rows(int a) {\n)";', "int rows(int a) {"),
            ("using nlohmann::json;", "using nlohmann::json;"),
        ):
            self.assertEqual(cut({"a": source(one), "b": source(other)}), [["a", "b"]], f"{one} and {other}")

    def test_whole_namespaces(self):
        self.assertEqual(cut({"a": "", "b": "namespace viaduct {\nusing namespace other;\n}\n", "c": "void f() {\n  using namespace other;\n}\n"}),
                         [["a", "c"], ["b"]])

    def test_opened_namespaces(self):
        opened = source("using namespace test;")
        own = source("int rows(int a) {")
        opens = {"b", "c"}.__contains__
        def cut_opened(declared):
            sources = {"a": own, "b": opened, "c": opened}
            return batches.batches(sorted(sources), lambda name: batches.definitions(sources[name]), lambda name: declared.get(name, set()), 16, opens)
        self.assertEqual(cut_opened({}), [["a", "b", "c"]])
        # The functions of another one's headers would be called instead, or be ambiguous.
        self.assertEqual(cut_opened({"b": {"rows("}}), [["a", "c"], ["b"]])
        self.assertEqual(cut_opened({"a": {"rows("}}), [["a", "b", "c"]])
        self.assertEqual(batches.declared_functions("int rows(int a);\nint inner = rows(3);\nvoid PrintTo(const A& a);\nusing B = int(int);\n"), {"rows("})

    def test_names_of_headers(self):
        header = "struct Plan {\n  int inner;\n};\ninline constexpr int kRows = 3;\nusing Table = int[3];\nclass Later;\nint function(int a);\n"
        self.assertEqual(batches.declared_names(header), {"Plan", "kRows", "Table", "Later"})
        for one, other in (("struct Plan {", ""), ("", "constexpr int kRows = 4;")):
            declared = {"a" if one == "" else "b": batches.declared_names(header)}
            self.assertEqual(cut({"a": source(one), "b": source(other)}, declared=declared), [["a"], ["b"]])
        self.assertEqual(cut({"a": source("int Plan(int a) {"), "b": ""}, declared={"b": {"Plan"}}), [["a", "b"]])

    def test_names_outside_do_not_count(self):
        text = "namespace viaduct {\nint rows(int a) {\n}\n}  // namespace viaduct\n"
        self.assertEqual(cut({"a": text, "b": text}), [["a", "b"]])


if __name__ == "__main__":
    unittest.main()
