// What the key of each role may say. The forms of keys and of their names.
#include "proto/identity.hpp"

#include <doctest/doctest.h>

#include "tests/proto/samples.hpp"

namespace rubato::proto {
namespace {

const std::string kKey(kKeyCharacters, 'k');
const std::string kOtherKey(kKeyCharacters, 'o');

Message from(Role role, Body body = Heartbeat{}) {
  Message message = samples::message(std::move(body));
  message.sender = {role, 0};
  return message;
}

TEST_CASE("identity: each role's key speaks for that role alone, the scheduler's for both of its") {
  const std::vector<Role> roles{Role::Scheduler, Role::Server, Role::Worker, Role::Evaluator};
  for (const Role key : {Role::Scheduler, Role::Server, Role::Worker}) {
    const Identity identity{key, "name", kKey};
    for (const Role claimed : roles) {
      CAPTURE(role_name(key));
      CAPTURE(role_name(claimed));
      const bool allowed = key == claimed || (key == Role::Scheduler && claimed == Role::Evaluator);
      for (const Message& sample : samples::every_message()) {
        if (std::holds_alternative<Hello>(sample.body) ||
            std::holds_alternative<Describe>(sample.body))
          continue;
        Message message = sample;
        message.sender.role = claimed;
        CHECK(overstep(identity, message).has_value() == !allowed);
      }
    }
  }
  const auto why = overstep({Role::Worker, "pi-3", kKey}, from(Role::Evaluator));
  REQUIRE(why);
  CHECK(*why == "the key of worker 'pi-3' does not speak for an evaluator");
}

TEST_CASE("identity: a worker and a server speak under their own name alone") {
  for (const Role role : {Role::Worker, Role::Server}) {
    CAPTURE(role_name(role));
    const Identity identity{role, "box-1", kKey};
    Hello hello{.name = "box-1", .endpoint = ""};
    hello.public_key = role == Role::Server ? kKey : "";
    CHECK(!overstep(identity, from(role, hello)));
    CHECK(!overstep(identity, from(role, Describe{"box-1"})));
    hello.name = "box-2";
    const auto why = overstep(identity, from(role, hello));
    REQUIRE(why);
    CHECK(why->find("'box-1'") != std::string::npos);
    CHECK(overstep(identity, from(role, Describe{"box-2"})));
  }
  // It measures under a name of its own.
  CHECK(!overstep({Role::Scheduler, "scheduler", kKey},
                  from(Role::Evaluator, Hello{.name = "evaluator", .endpoint = ""})));
}

TEST_CASE("identity: a server tells workers no other key than its own") {
  const Identity server{Role::Server, "server-0", kKey};
  for (const std::string& told : {std::string(), kOtherKey}) {
    const auto why = overstep(
        server, from(Role::Server, Hello{.name = "server-0", .endpoint = "", .public_key = told}));
    REQUIRE(why);
    CHECK(why->find(kKey) == std::string::npos);  // keys are in no error line
  }
}

TEST_CASE("identity: keys are 40 characters of Z85, names are safe as file names") {
  CHECK(is_key("rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"));
  CHECK(!is_key(""));
  CHECK(!is_key(std::string(39, 'a')));
  CHECK(!is_key(std::string(41, 'a')));
  for (const char* bad : {"\"", "\\", " ", "\n", "~", "'"})
    CHECK(!is_key(std::string(39, 'a') + bad));
  for (const char* good : {"pi-3", "a", "Box_7.local", "0"}) CHECK(is_key_name(good));
  CHECK(is_key_name(std::string(kKeyNameMax, 'a')));
  CHECK(!is_key_name(std::string(kKeyNameMax + 1, 'a')));
  for (const char* bad : {"", ".", "..", "../x", "a/b", "-x", ".x", "a b", "a\n", "ä"})
    CHECK(!is_key_name(bad));
}

}  // namespace
}  // namespace rubato::proto
