// Each rule sees its violation, and nothing in what is allowed.
#include <doctest/doctest.h>

#include <map>
#include <string>

#include "tests/rules/rules.hpp"

namespace rubato::rules {
namespace {

TEST_CASE("include_arrows") {
  CHECK(
      include_arrows({"server/a.cpp", "#include \"sync/gate.hpp\"\n#include <vector>\n"}).empty());
  CHECK(include_arrows({"server/a.cpp", "#include \"server/b.hpp\"\n"}).empty());
  CHECK(include_arrows({"proto/codec.cpp", "#include \"rubato_generated.h\"\n"}).empty());
  CHECK(include_arrows({"tests/a/a.cpp", "#include \"tests/a/b.hpp\"\n#include \"cli/c.hpp\"\n"})
            .empty());
  CHECK(include_arrows({"proto/messages.hpp", "#include \"sync/words.hpp\"\n"}).empty());

  const Violations sideways = include_arrows({"server/a.cpp", "\n#include \"worker/w.hpp\"\n"});
  REQUIRE(sideways.size() == 1);
  CHECK(sideways[0] == "server/a.cpp:2: server may not include worker (worker/w.hpp)");
  CHECK(include_arrows({"worker/a.hpp", "#include \"server/s.hpp\"\n"}).size() == 1);
  CHECK(include_arrows({"scheduler/a.cpp", "#include \"server/s.hpp\"\n"}).size() == 1);
  CHECK(include_arrows({"server/a.cpp", "#include \"scheduler/s.hpp\"\n"}).size() == 1);
  CHECK(include_arrows({"worker/a.cpp", "#include \"scheduler/s.hpp\"\n"}).size() == 1);
  CHECK(include_arrows({"base/a.hpp", "#include \"sync/model.hpp\"\n"}).size() == 1);
  CHECK(include_arrows({"proto/a.hpp", "#include \"sync/model.hpp\"\n"}).size() == 1);
  CHECK(include_arrows({"base/a.hpp", "#include \"sync/words.hpp\"\n"}).size() == 1);
  CHECK(include_arrows({"sync/a.hpp", "#  include \"proto/messages.hpp\"\n"}).size() == 1);
  CHECK(include_arrows({"cli/a.cpp", "#include \"tests/rules/rules.hpp\"\n"}).size() == 1);
  CHECK(include_arrows({"nodes/a.cpp", "#include \"report/table.hpp\"\n"}).size() == 1);
  CHECK(include_arrows({"train/data/a.cpp", "#include \"train/model/b.hpp\"\n"}).empty());
  CHECK(include_arrows({"train/model/a.cpp", "#include \"train/data/b.hpp\"\n"}).size() == 1);
  CHECK(include_arrows({"train/data/a.cpp", "#include \"train/device.hpp\"\n"}).size() == 1);
  CHECK(include_arrows({"sync/a.cpp", "#include \"model.hpp\"\n"}).size() == 1);
  CHECK(include_arrows({"sync/a.cpp", "#include \"../sync/model.hpp\"\n"}).size() == 1);
  CHECK(include_arrows({"sync/a.cpp", "#include <sync/model.hpp>\n"}).size() == 1);
}

TEST_CASE("library_owners") {
  const auto includes = [](const char* path, const char* header) {
    return library_owners({path, std::string("#include <") + header + ">\n"}).size();
  };
  CHECK(includes("proto/zmq_transport.cpp", "zmq.hpp") == 0);
  CHECK(includes("proto/zmq_curve.cpp", "zmq.hpp") == 0);
  CHECK(includes("proto/codec.cpp", "flatbuffers/flatbuffers.h") == 0);
  CHECK(includes("train/cpu/device.cpp", "cblas.h") == 0);
  CHECK(includes("base/config.cpp", "toml++/toml.h") == 0);
  CHECK(includes("cli/main.cpp", "CLI/CLI.hpp") == 0);
  CHECK(includes("report/live/live_server.cpp", "httplib.h") == 0);
  CHECK(includes("base/json.hpp", "nlohmann/json.hpp") == 0);
  CHECK(includes("tests/proto/raw_peer_test.cpp", "zmq.hpp") == 0);

  CHECK(includes("proto/zmq_transport.hpp", "zmq.hpp") == 1);
  CHECK(includes("server/server_loop.cpp", "zmq_addon.hpp") == 1);
  CHECK(includes("server/shard.cpp", "zmq.h") == 1);
  CHECK(includes("worker/worker_core.cpp", "flatbuffers/flatbuffers.h") == 1);
  CHECK(includes("train/reference_device.cpp", "cblas.h") == 1);
  CHECK(includes("emulation/virtual_cluster.cpp", "oneapi/dnnl/dnnl.hpp") == 1);
  CHECK(includes("train/device.cpp", "cuda_runtime.h") == 1);
  CHECK(includes("cluster/cluster_config.cpp", "toml++/toml.h") == 1);
  CHECK(includes("server/main.cpp", "CLI/CLI.hpp") == 1);
  CHECK(includes("report/live/live_page.cpp", "httplib.h") == 1);
  CHECK(includes("report/web_page.cpp", "nlohmann/json.hpp") == 1);
}

TEST_CASE("pure_cores") {
  CHECK(pure_cores({"sync/adsp.cpp", "#include <map>\n// like steady_now()\n"}).empty());
  CHECK(pure_cores({"cluster/worker_node.cpp", "#include <thread>\n"}).empty());
  CHECK(pure_cores({"proto/shm/channel.cpp", "#include <mutex>\n"}).empty());
  CHECK(pure_cores({"tests/sync/adsp_test.cpp", "#include <random>\n"}).empty());
  CHECK(pure_cores({"sync/adsp.cpp", "#include <thread>\n"}).size() == 1);
  CHECK(pure_cores({"scheduler/scheduler.hpp", "#include <mutex>\n"}).size() == 1);
  CHECK(pure_cores({"server/shard.cpp", "#include <unordered_map>\n"}).size() == 1);
  CHECK(pure_cores({"cluster/cluster_plan.cpp", "#include <sys/stat.h>\n"}).size() == 1);
  CHECK(pure_cores({"worker/worker_core.cpp", "  begin_ = steady_now();\n"}).size() == 1);
}

TEST_CASE("line_lengths") {
  CHECK(line_lengths({"a.cpp", std::string(100, 'x') + "\n"}).empty());
  CHECK(line_lengths({"a.cpp", std::string(101, 'x') + "\n"}).size() == 1);
  std::string umlauts = "//";
  for (int i = 0; i < 98; ++i) umlauts += "\xc3\xa4";
  CHECK(line_lengths({"a.cpp", umlauts}).empty());
  CHECK(line_lengths({"a.cpp", umlauts + "\xc3\xa4"}).size() == 1);
}

TEST_CASE("header_form") {
  CHECK(header_form({"a/b.hpp", "// a/b.hpp - a thing.\n#pragma once\n"}).empty());
  CHECK(header_form({"a/b.cpp", "int x;\n"}).empty());
  CHECK(header_form({"a/b.hpp", "// a/c.hpp - a thing.\n#pragma once\n"}).size() == 1);
  CHECK(header_form({"a/b.hpp", "// a/b.hpp - \n#pragma once\n"}).size() == 1);
  CHECK(header_form({"a/b.hpp", "// a/b.hpp - a thing.\n"}).size() == 1);
  CHECK(header_form({"a/b.hpp", ""}).size() == 2);
}

TEST_CASE("banned_words") {
  const auto count = [](const char* path, const std::string& text) {
    return banned_words({path, text}).size();
  };
  CHECK(count("sync/a.cpp", "A(const A&) = delete;\n// a new one\nputs(\"new\");\n") == 0);
  CHECK(count("base/time.cpp", "std::chrono::steady_clock::now();\n") == 0);
  CHECK(count("emulation/throttle.cpp", "std::this_thread::sleep_for(x);\n") == 0);
  CHECK(count("sync/a.cpp", "int renew = 0, operand(int);\n") == 0);

  CHECK(count("sync/a.cpp", "auto* x = new int;\n") == 1);
  CHECK(count("tests/a.cpp", "void* operator new(std::size_t);\n#include <new>\n") == 0);
  CHECK(count("sync/a.cpp", "delete x;\n") == 1);
  CHECK(count("sync/a.cpp", std::string("// TO") + "DO: later\n") == 1);
  CHECK(count("sync/a.cpp", "std::chrono::steady_clock::now();\n") == 1);
  CHECK(count("worker/a.cpp", "std::mt19937_64 generator(7);\n") == 1);
  CHECK(count("worker/a.cpp", "std::normal_distribution<float> n;\n") == 1);
  CHECK(count("worker/a.cpp", "int x = rand() % 6;\n") == 1);
  CHECK(count("tests/a/a.cpp", "std::this_thread::sleep_for(x);\n") == 1);
  CHECK(count("cli/a.cpp", "fmt::print(\"{}\", name);\n") == 1);
  CHECK(count("cli/a.cpp", "print_text(\"{}\", name);\n") == 0);
  CHECK(count("cli/a.cpp", "print_json(all.dump(2));\n") == 1);
  CHECK(count("base/json.hpp", "return json.dump(2);\n") == 0);
  CHECK(count("tests/a/a.cpp", "json.dump(2);\n") == 0);
  CHECK(count("tests/a/a.cpp", "(void)::poll(nullptr, 0, 500);\n") == 1);
  CHECK(count("tests/a/a.cpp", "(void)::poll(&waits, 1, 500);\n") == 0);
}

TEST_CASE("test_names") {
  const std::string name = std::string("TEST_") + "CASE(\"first";
  CHECK(test_names({"tests/a/a.cpp", name + ", second\") { f(); }\n"}).empty());
  CHECK(test_names({"tests/a/a.cpp", name + "; second\") { f(); }\n"}).size() == 1);
  CHECK(test_names({"tests/a/a.cpp", name + "\"\n    \"; second\") {\n"}).size() == 1);
}

TEST_CASE("virtual_interfaces") {
  CHECK(virtual_interfaces({"sync/m.hpp",
                            "class Gate {\n  struct Order {\n    int x;\n  };\n"
                            "  virtual int poll() = 0;\n};\n"})
            .empty());
  CHECK(
      virtual_interfaces({"sync/m.hpp", "class Bsp : public Gate {\n  int poll() override;\n};\n"})
          .empty());
  const Violations own =
      virtual_interfaces({"sync/m.hpp", "class Tuner;\nclass Clock {\n  virtual int now();\n};\n"});
  REQUIRE(own.size() == 1);
  CHECK(own[0] == "sync/m.hpp:3: 'Clock' is not one of the agreed virtual interfaces");
  CHECK(
      virtual_interfaces({"sync/m.hpp", "class Gate {};\nclass Clock {\n  virtual int now();\n};"})
          .size() == 1);
}

TEST_CASE("built_by_someone") {
  const SourceFile test{"tests/sync/adsp_test.cpp", ""};
  const auto named_by = [](const char* path, const char* text) {
    return std::vector<SourceFile>{{path, text}};
  };
  CHECK(built_by_someone(test, named_by("tests/sync/CMakeLists.txt", "x(SOURCES adsp_test.cpp)"))
            .empty());
  CHECK(built_by_someone(test, named_by("tests/CMakeLists.txt", "x(\n\"sync/adsp_test.cpp\"\n)"))
            .empty());
  CHECK(built_by_someone({"tests/sync/helpers.hpp", ""}, {}).empty());
  CHECK(built_by_someone(test, {}).size() == 1);
  CHECK(built_by_someone(test, named_by("tests/sync/CMakeLists.txt", "# adsp_test.cpp")).size() ==
        1);
  CHECK(built_by_someone(test, named_by("tests/sync/CMakeLists.txt", "my_adsp_test.cpp")).size() ==
        1);
  CHECK(built_by_someone(test, named_by("tests/cli/CMakeLists.txt", "adsp_test.cpp")).size() == 1);
}

TEST_CASE("include_count") {
  CHECK(include_count({"a.cpp", "#include <a>\n#  include \"b/c.hpp\"\n// #include <d>\n"}) == 2);
}

TEST_CASE("member_counts") {
  const std::string text =
      "template <class T> class A {\n  A(int x) : a_(x) {}\n  int f() const { return a_; }\n"
      "  int a_ = 1, b_{};\n  std::function<void(int c_)> d_;\n"
      "  struct B { int e_; };\n  int g_[2];\n};\nclass C;\n";
  const auto counts = member_counts({"a.hpp", text});
  CHECK(counts == std::map<std::string, std::size_t>{{"A", 4}, {"B", 1}});
}

TEST_CASE("names_one_of") {
  const auto names = [](const std::string& text) {
    return names_one_of({"a.cpp", text}, {"asp", "local-sgd"});
  };
  CHECK(names("f(\"asp\");"));
  CHECK(names("options.local_sgd.steps"));
  CHECK(names("LocalSgdRule rule;"));
  CHECK(names("bool isAsp;"));
  CHECK_FALSE(names("// asp\n"));
  CHECK_FALSE(names("aspect, grasp, dssp, local_steps"));
}

TEST_CASE("blank_comments_and_literals") {
  CHECK(blank_comments_and_literals("a // b\nc") == "a     \nc");
  CHECK(blank_comments_and_literals("a /* b\n*/ c") == "a     \n   c");
  CHECK(blank_comments_and_literals("f(\"a\\\"b\", 'c', '\\'')") == "f(\"    \", ' ', '  ')");
  CHECK(blank_comments_and_literals("R\"(a\"b)\" c") == "R\"    )\" c");
  CHECK(blank_comments_and_literals("1'000 + x") == "1'000 + x");
}

}  // namespace
}  // namespace rubato::rules
