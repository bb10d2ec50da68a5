#include "base/path_part.hpp"

#include <doctest/doctest.h>

using namespace rubato;
using What = PathPart::What;

TEST_CASE("path: kinds by their share, each with its largest nodes") {
  CHECK(path_text({{"slow", What::Compute, 0.62}, {"phone-2", What::Up, 0.38}}) ==
        "slow's computing 62.0 %, phone-2's uplink 38.0 %");
  CHECK(path_text({{"phone-2", What::Up, 0.4},
                   {"a", What::Compute, 0.3},
                   {"b", What::Compute, 0.2},
                   {"c", What::Compute, 0.06},
                   {"d", What::Compute, 0.036},
                   {"d", What::Latency, 0.004}}) ==
        "computing 59.6 % (a 30.0 %, b 20.0 %, c 6.0 %, 1 more), phone-2's uplink 40.0 %");
  std::vector<PathPart> many(200, {"w", What::Compute, 0.005});
  CHECK(path_text(many) == "computing 100.0 % (200 nodes)");
}

TEST_CASE("path: words are read back") {
  for (const What what :
       {What::Compute, What::Up, What::Down, What::Latency, What::Apply, What::Timer, What::Absent})
    CHECK(path_what(path_word(what)) == what);
  CHECK_FALSE(path_what("idling").has_value());
}

TEST_CASE("path: the mean of several runs still adds up to 1") {
  const std::vector<PathPart> one{{"a", What::Compute, 0.7}, {"a", What::Up, 0.3}};
  const std::vector<PathPart> other{{"b", What::Compute, 1}};
  const auto mean = mean_path({&one, &other});
  REQUIRE(mean.size() == 3);
  CHECK(mean[0] == PathPart{"b", What::Compute, 0.5});
  CHECK(mean[1].share == doctest::Approx(0.35));
  CHECK(mean[2].share == doctest::Approx(0.15));
  CHECK(mean_path({}).empty());
}
