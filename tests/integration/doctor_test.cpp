// rubato doctor: what it finds is what is there.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/integration/process.hpp"
#include "tests/integration/quick_cluster.hpp"
#include "tests/integration/relay.hpp"
#include "tests/loopback.hpp"

namespace rubato::integration {
namespace {

using Json = nlohmann::json;

// The finding about `what`; null if there is none.
Json finding(const Json& all, const std::string& what) {
  for (const Json& each : all)
    if (each.at("what").get<std::string>().starts_with(what)) return each;
  return nullptr;
}

TEST_CASE("doctor: a port that is taken, a scheduler that is not there, data that cannot be read") {
  const Workplace place;
  place.write("c.toml", QuickCluster{}.text());
  const Relay taken;
  Process sick(place, {"doctor", "c.toml", "--json", "--bind", taken.endpoint(), "--scheduler",
                       tests::endpoint_at(tests::free_port()), "--advertise",
                       "tcp://no-such-box.invalid:5701", "--data", "nowhere.csv", "--state",
                       place.directory().string()});
  CHECK(sick.wait_for_end() == 1);
  const Json all = Json::parse(sick.out());
  for (const auto& [what, remedy] :
       {std::pair{"bind ", "choose another port"}, std::pair{"scheduler ", "is it running"},
        std::pair{"advertise ", "give an address"}, std::pair{"data", "--data"}}) {
    CAPTURE(what);
    const Json found = finding(all, what);
    REQUIRE(found.is_object());
    CHECK(found.at("level") == "problem");
    CHECK(contains(found.at("remedy").get<std::string>(), remedy));
  }
  for (const char* what : {"cluster file", "processor", "cores", "memory", "open files", "disk"})
    CHECK(finding(all, what).is_object());
}

TEST_CASE("doctor: endpoints of IPv6 and of names are free, taken, or of no address") {
  const Workplace place;
  place.write("c.toml", QuickCluster{.stop = kEndless}.text());
  const auto judged = [&](const std::string& bind) {
    Process doctor(place, {"doctor", "c.toml", "--json", "--bind", bind});
    doctor.wait_for_end();
    const Json found = finding(Json::parse(doctor.out()), "bind ");
    return found.at("level").get<std::string>() + ": " + found.at("found").get<std::string>();
  };
  std::vector<std::string> hosts{"127.0.0.1", "localhost", "lo"};
  if (tests::has_ipv6()) hosts.emplace_back("[::1]");
  for (const std::string& host : hosts) {
    CAPTURE(host);
    Process scheduler(place, {"scheduler", "c.toml", "--bind", "tcp://" + host + ":*"});
    const int port = tests::port_of(endpoint_of(scheduler));
    const auto at = [&](int p) { return fmt::format("tcp://{}:{}", host, p); };
    CHECK(judged(at(port)) == "problem: another program listens there");
    CHECK(judged(at(tests::free_port())).starts_with("ok: free"));
    Process asked(place, {"doctor", "c.toml", "--scheduler", at(port)});
    asked.wait_for_end();
    if (host != "lo") CHECK(contains(asked.out(), "scheduler " + at(port) + ": answers at "));
  }
  CHECK(judged("tcp://no-such-box.invalid:5700") == "problem: no address belongs to the name");
  CHECK(judged("tcp://192.0.2.1:5700") == "problem: is no address of this machine");
}

TEST_CASE("doctor: a scheduler that is there answers, and training goes on") {
  const Workplace place;
  place.write("c.toml", QuickCluster{.stop = kEndless}.text());
  Process scheduler(place, {"scheduler", "c.toml", "--bind", "tcp://127.0.0.1:*"});
  const std::string endpoint = endpoint_of(scheduler);
  Process well(place, {"doctor", "c.toml", "--scheduler", endpoint, "--name", "slow"});
  well.wait_for_end();
  CHECK(contains(well.out(), "ok      scheduler " + endpoint + ": answers at 127.0.0.1"));
  CHECK(contains(well.out(), " problem"));
  Process stranger(place, {"doctor", "c.toml", "--name", "nobody"});
  CHECK(stranger.wait_for_end() == 1);
  CHECK(contains(stranger.out(), "no worker 'nobody' in c.toml"));
}

TEST_CASE("doctor: keys that a node needs, and what is wrong with them") {
  const Workplace place;
  const auto keys = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"doctor", "--json", "--keys", "k"};
    words.insert(words.end(), more.begin(), more.end());
    Process process(place, words);
    process.wait_for_end();
    return finding(Json::parse(process.out()), "keys");
  };
  const auto keygen = [&](const std::string& name, const std::string& role) {
    Process process(place, {"keygen", name, "--role", role, "--keys", "k"});
    REQUIRE(process.wait_for_end() == 0);
  };
  const auto remedy = [](const Json& found) { return found.at("remedy").get<std::string>(); };
  Json found = keys({"--scheduler", "tcp://10.255.255.1:5700"});
  CHECK(found.at("level") == "problem");
  CHECK(contains(remedy(found), "rubato keygen NAME"));
  keygen("pi-1", "worker");
  found = keys({});
  CHECK(found.at("level") == "problem");
  CHECK(contains(remedy(found), "scheduler.pub is missing"));
  keygen("scheduler", "scheduler");
  found = keys({});
  CHECK(found.at("level") == "ok");
  CHECK(found.at("found") == "the scheduler, worker 'pi-1' in k, accepts 0 keys of others");
  Process allow(place, {"keys", "allow", "k/pi-1.pub", "--keys", "k"});
  REQUIRE(allow.wait_for_end() == 0);
  CHECK(contains(keys({}).at("found").get<std::string>(), "accepts 1 key of others"));
  std::filesystem::permissions(place.path("k/pi-1.key"), std::filesystem::perms(0644));
  found = keys({});
  CHECK(found.at("level") == "problem");
  CHECK(contains(remedy(found), "pi-1.key"));
}

TEST_CASE("doctor: bad input is one line") {
  const Workplace place;
  Process missing(place, {"doctor", "missing.toml"});
  CHECK(missing.wait_for_end() == 2);
  CHECK(contains(missing.err(), "missing.toml"));
  Process endpoint(place, {"doctor", "--scheduler", "10.0.0.1"});
  CHECK(endpoint.wait_for_end() == 2);
  CHECK(contains(endpoint.err(), "--scheduler 10.0.0.1: write tcp://HOST:PORT"));
}

}  // namespace
}  // namespace rubato::integration
