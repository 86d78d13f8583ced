"""lint_coawait finds every shape that g++ 12 miscompiles and lets ordinary coroutines pass."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from lint_coawait import lint  # noqa: E402

BAD = {
    "braces": [
        "co_await f(Options{1});",
        "co_await f({.method = m, .body = b});",
        "co_await g({a, b});",
        "auto r = co_await rpc.call(peer, CallOptions{.deadline = t});",
        "S s{co_await f(), 1};",
        "return_value = S{co_await f()};",
        "co_return S{co_await f(), 2};",
        "if (co_await f(Options{1})) { g(); }",
        "while (!co_await f({1, 2})) g();",
        "DEDLOC_CO_TRY(auto x, co_await f(Key{a}));",
        "DEDLOC_CO_TRY_VOID(co_await f({a}));",
        "for (auto& x : co_await f(Range{1})) use(x);",
        "co_await Awaiter{x};",
        "auto v = g(Options{1}, co_await h());",
        "co_await (f(Options{1}) || sleep(t));",
        "for (int i = 0; i < n; ++i) co_await f(Item{i});",
        "scope.spawn(name, [](int a) -> Task<void> { co_await f(Options{a}); }(1));",
        "EXPECT_TRUE(co_await f({1}));",
    ],
    "lambda": [
        "co_await [x]() -> Task<int> { co_return x; }();",
        "co_await [&] { return f(x); }();",
        "auto r = co_await workers.run([bytes = std::move(b)]() mutable { return hash(bytes); });",
        "co_await workers.run([this, a] { return a; });",
    ],
    "statement": ["auto x = ({ auto r = co_await f(); *r; });"],
    "catch": ["try { co_await f(); } catch (const E& e) { co_await g(); }",
              "try { f(); } catch (...) { if (a) { co_await g(); } }"],
    "fiasco": ["scope.spawn(name, [this]() -> Task<void> { co_await f(); }());",
               "spawn([x](int a) -> Task<void> { if (x) { co_return; } }(1));"],
}

GOOD = [
    "Options o{.method = m}; co_await f(o);",
    "auto k = [x]() -> Task<int> { co_return x; }; co_await k();",
    "int a = co_await f(); S s{a, 1};",
    "if (co_await f()) { g({1, 2}); }",
    "while (!co_await f(a[1])) { S s{1}; }",
    "for (auto& x : co_await f()) { use(Options{x}); }",
    "co_await f(std::string(a, b), g(h[1]));",
    "co_await (std::move(task) || clock.sleep_until(deadline));",
    "switch (co_await f()) { case 1: { break; } default: g({1}); }",
    "auto r = co_await workers.run([](int a) { return S{a}; });",
    "co_return S{1, 2};",
    "auto w = f(Options{1}); co_await std::move(w);",
    "auto work = [b = std::move(b)] { return hash(b); }; auto h = co_await workers.run(work);",
    "DEDLOC_CO_TRY(const auto record, co_await dht.get(key)); S s{1};",
    "try { co_await f(); } catch (const E& e) { failed = true; }",
    'log("co_await f(Options{1})"); // co_await f(Options{1})',
    'auto s = R"(co_await f(Options{1}))"; auto n = 1\'000; co_await f(n);',
    "do { co_await f(); } while (more({1}));",
    "if (auto r = co_await f(); !r) { co_return g({1}); } else { h({2}); }",
    "auto [a, b] = co_await f();",
    "handler = [this](PeerId from, Bytes request) -> Task<Result<Bytes>> { return answer(from); };",
    "loop.run_task(test(world));",
    "co_await f(x); // NOLINT(coawait)",
    "co_await f(Options{1});  // NOLINT(coawait)",
]


def coroutine(statement: str) -> str:
    return f"namespace a {{\nTask<int> Thing::run(int n) {{\n{statement}\n}}\n}}  // namespace a\n"


class LintCoawait(unittest.TestCase):
    def test_bad_shapes_are_found_with_rule_and_line(self):
        for rule, statements in BAD.items():
            for statement in statements:
                with self.subTest(statement=statement):
                    found = lint(coroutine(statement))
                    self.assertIn((3, rule), [(line, r) for line, r, _ in found])

    def test_good_shapes_pass(self):
        for statement in GOOD:
            with self.subTest(statement=statement):
                self.assertEqual(lint(coroutine(statement)), [])

    def test_bad_shapes_are_found_in_classes_lambdas_and_gtest_bodies(self):
        inner = "co_await f(Options{1});"
        for frame in (
            "struct A : B {{ Task<void> run() const override {{ {0} }} }};",
            "TEST(A, b) {{ auto t = [](World& w) -> Task<void> {{ {0} }}; run(t); }}",
            "A::A(int x) : a_(x), b_{{x}} {{ spawn([](int y) -> Task<void> {{ {0} }}(1)); }}",
            "template <typename T> requires C<T> auto f(T t) -> Task<T> {{ {0} }}",
            "Task<void> f() {{\n#if X\n if (a) {{ {0} }}\n#endif\n }}",
        ):
            with self.subTest(frame=frame):
                self.assertEqual([r for _, r, _ in lint(frame.format(inner))], ["braces"])

    def test_the_program_ends_with_1_on_a_bad_file_and_0_on_a_good_one(self):
        with tempfile.TemporaryDirectory() as folder:
            for statement, status in (("co_await f({1});", 1), ("co_await f(a);", 0)):
                path = Path(folder) / "shape.cpp"
                path.write_text(coroutine(statement))
                run = subprocess.run(
                    [sys.executable, ROOT / "tools/lint_coawait.py", path], capture_output=True
                )
                self.assertEqual(run.returncode, status, run.stdout)
            run = subprocess.run(
                [sys.executable, ROOT / "tools/lint_coawait.py", Path(folder) / "none.cpp"],
                capture_output=True,
            )
            self.assertEqual(run.returncode, 2)


if __name__ == "__main__":
    unittest.main()
