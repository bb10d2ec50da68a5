// proto/key_files.hpp - keys as files. NAME.key holds a secret key and is its owner's alone;
// NAME.pub holds the public one and may go anywhere. docs/security.md has the format.
// Errors: BadInput or Io, one line with the path and the remedy. No line holds a key.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "proto/identity.hpp"

namespace rubato::proto {

struct SecretKey {
  Identity identity;
  std::string secret;
};

std::filesystem::path secret_file(const std::filesystem::path& directory, std::string_view name);
std::filesystem::path public_file(const std::filesystem::path& directory, std::string_view name);
// Where public keys of those lie who may connect to the nodes of this directory.
std::filesystem::path authorized_directory(const std::filesystem::path& directory);

// Writes NAME.key and NAME.pub. Makes the directory. Errors: one of the files is there already.
[[nodiscard]] Result<void> write_key_files(const std::filesystem::path& directory,
                                           const SecretKey& key);
// Errors: others than its owner may read it.
[[nodiscard]] Result<SecretKey> read_secret_key(const std::filesystem::path& file);
[[nodiscard]] Result<Identity> read_public_key(const std::filesystem::path& file);

// Puts a copy of this public key into the directory of the authorized. Errors: the name is there
// with another key. Returns: false if the key is there already.
[[nodiscard]] Result<bool> authorize(const std::filesystem::path& directory,
                                     const std::filesystem::path& file);
// Returns: false if no such name is there.
[[nodiscard]] Result<bool> revoke(const std::filesystem::path& directory, const std::string& name);

// The public keys of a directory, as of the last look. Files that are no keys are one warning each.
// A directory that is not there has none.
class AuthorizedKeys {
 public:
  explicit AuthorizedKeys(std::filesystem::path directory) : directory_(std::move(directory)) {}

  // Looks at names and times, and reads if they differ from the last look. Returns: whether they
  // do. A directory that cannot be listed leaves everything as it is.
  bool refresh();
  const std::map<std::string, Identity>& by_key() const { return keys_; }
  std::string directory() const { return directory_.string(); }

 private:
  // One line for each file, which changes whenever the file does.
  std::optional<std::vector<std::string>> look() const;

  std::filesystem::path directory_;
  std::vector<std::string> seen_;
  std::map<std::string, Identity> keys_;
};

}  // namespace rubato::proto
