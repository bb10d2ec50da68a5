// Key files: written once, private, checked when read; the directory of the authorized as it
// changes.
#include "proto/key_files.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "proto/zmq_curve.hpp"
#include "tests/temp_directory.hpp"

namespace rubato::proto {
namespace {

SecretKey make_key(Role role, const std::string& name) {
  auto pair = make_curve_pair();
  return {{role, name, std::move(pair.public_key)}, std::move(pair.secret_key)};
}

unsigned mode_of(const std::string& path) {
  struct stat facts {};
  REQUIRE(::stat(path.c_str(), &facts) == 0);
  return facts.st_mode & 07777;
}

TEST_CASE("key files: what is written is read again, and only its owner may read the secret") {
  const TempDirectory place;
  const std::string directory = place.path("a/keys");
  const SecretKey key = make_key(Role::Worker, "pi-3");
  REQUIRE(write_key_files(directory, key));
  CHECK(mode_of(directory + "/pi-3.key") == 0600);
  const auto secret = read_secret_key(directory + "/pi-3.key");
  REQUIRE(secret);
  CHECK(secret->identity == key.identity);
  CHECK(secret->secret == key.secret);
  const auto shown = read_public_key(directory + "/pi-3.pub");
  REQUIRE(shown);
  CHECK(*shown == key.identity);
}

TEST_CASE("key files: none is written over") {
  const TempDirectory place;
  const SecretKey key = make_key(Role::Worker, "pi-3");
  REQUIRE(write_key_files(place.path(), key));
  const auto again = write_key_files(place.path(), make_key(Role::Worker, "pi-3"));
  REQUIRE(!again);
  CHECK(again.error().code == ErrorCode::BadInput);
  CHECK(again.error().message.find("pi-3.pub is there already") != std::string::npos);
  CHECK(read_secret_key(place.path("pi-3.key"))->secret == key.secret);
  // Nor is half of a pair left where the other half was there.
  std::filesystem::remove(place.path("pi-3.pub"));
  CHECK(!write_key_files(place.path(), make_key(Role::Worker, "pi-3")));
  CHECK(!std::filesystem::exists(place.path("pi-3.pub")));
}

TEST_CASE("key files: a secret that others may read is refused, with the remedy") {
  const TempDirectory place;
  const SecretKey key = make_key(Role::Server, "server-0");
  REQUIRE(write_key_files(place.path(), key));
  const std::string file = place.path("server-0.key");
  for (const mode_t mode : {0640, 0604, 0620, 0644}) {
    REQUIRE(::chmod(file.c_str(), mode) == 0);
    const auto read = read_secret_key(file);
    REQUIRE(!read);
    CHECK(read.error().code == ErrorCode::BadInput);
    CHECK(read.error().message.find("chmod 600 " + file) != std::string::npos);
    CHECK(read.error().message.find(key.secret) == std::string::npos);
  }
}

TEST_CASE("key files: what is no key file is one line that repeats nothing of it") {
  const TempDirectory place;
  const SecretKey key = make_key(Role::Worker, "pi-3");
  REQUIRE(write_key_files(place.path(), key));
  const std::string shown = key.identity.public_key;
  const std::vector<std::string> bad{
      "",
      "[",
      key.secret,
      "name = \"pi-3\"\nrole = \"worker\"\n",
      "name = \"../x\"\nrole = \"worker\"\npublic_key = \"" + shown + "\"\n",
      "name = \"pi-3\"\nrole = \"king\"\npublic_key = \"" + shown + "\"\n",
      "name = \"pi-3\"\nrole = \"worker\"\npublic_key = \"short\"\n",
      std::string(10'000, '#'),
  };
  for (const std::string& text : bad) {
    const auto read = read_public_key(place.write("x.pub", text));
    REQUIRE(!read);
    CHECK(read.error().message ==
          place.path("x.pub") + " is no key file; rubato keygen writes one");
  }
  CHECK(!read_public_key(place.path("missing.pub")));
  // A secret key where a public one belongs, or what is left of one.
  const std::string both = "name = \"pi-3\"\nrole = \"worker\"\npublic_key = \"" + shown + "\"\n";
  for (const std::string& text :
       {both + "secret_key = \"" + key.secret + "\"\n", "secret_key = " + key.secret}) {
    const auto read = read_public_key(place.write("x.pub", text));
    REQUIRE(!read);
    CHECK(read.error().message.find("holds a secret key, which never leaves its box") !=
          std::string::npos);
    CHECK(read.error().message.find(key.secret) == std::string::npos);
  }
}

TEST_CASE("key files: allow, the same again, another key of the name, revoke") {
  const TempDirectory place;
  const SecretKey key = make_key(Role::Worker, "pi-3");
  REQUIRE(write_key_files(place.path("box"), key));
  const auto allowed = authorize(place.path("head"), place.path("box/pi-3.pub"));
  REQUIRE(allowed);
  CHECK(*allowed);
  CHECK(*authorize(place.path("head"), place.path("box/pi-3.pub")) == false);
  REQUIRE(write_key_files(place.path("other"), make_key(Role::Worker, "pi-3")));
  const auto other = authorize(place.path("head"), place.path("other/pi-3.pub"));
  REQUIRE(!other);
  CHECK(other.error().message.find("rubato keys revoke pi-3") != std::string::npos);
  CHECK(*revoke(place.path("head"), "pi-3"));
  CHECK(*revoke(place.path("head"), "pi-3") == false);
  CHECK(!revoke(place.path("head"), "../box/pi-3"));
  CHECK(*authorize(place.path("head"), place.path("other/pi-3.pub")));
  REQUIRE(write_key_files(place.path("head"), make_key(Role::Scheduler, "scheduler")));
  CHECK(!authorize(place.path("head"), place.path("head/scheduler.pub")));
}

TEST_CASE(
    "key files: the directory of the authorized is read again when it changes, and only then") {
  const TempDirectory place;
  AuthorizedKeys keys(authorized_directory(place.path("head")));
  CHECK(!keys.refresh());  // it is not there
  const SecretKey first = make_key(Role::Worker, "pi-1");
  REQUIRE(write_key_files(place.path(), first));
  REQUIRE(authorize(place.path("head"), place.path("pi-1.pub")));
  CHECK(keys.refresh());
  CHECK(!keys.refresh());
  REQUIRE(keys.by_key().contains(first.identity.public_key));
  CHECK(keys.by_key().at(first.identity.public_key) == first.identity);
  // A scheduler is known by scheduler.pub alone, whatever somebody copies here.
  const SecretKey scheduler = make_key(Role::Scheduler, "scheduler");
  REQUIRE(write_key_files(place.path("head/authorized_keys"), scheduler));
  CHECK(keys.refresh());
  CHECK(keys.by_key().size() == 1);
  REQUIRE(revoke(place.path("head"), "pi-1"));
  CHECK(keys.refresh());
  CHECK(keys.by_key().empty());
  // Under another file name nobody could revoke it.
  std::filesystem::copy(place.path("pi-1.pub"), place.path("head/authorized_keys/laptop.pub"));
  CHECK(keys.refresh());
  CHECK(keys.by_key().empty());
}

}  // namespace
}  // namespace rubato::proto
