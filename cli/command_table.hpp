// cli/command_table.hpp - the commands of `rubato`, a row each: its name, its options, what runs
// it.
#pragma once

#include <functional>
#include <span>
#include <stop_token>
#include <string>

namespace CLI {
class App;
}

namespace rubato::cli {

// How the user has asked for a command.
struct Invocation {
  std::string line;  // as typed
  std::stop_token stop;
};

// Of the system, before the command begins.
enum class Needs {
  Nothing,
  Descriptors,  // of connections
  NodeLimits,   // and the address space of a node
};

struct Command {
  const char* name;  // "keys allow": `allow`, below the row `keys`, which stands before
  const char* about;
  // Adds the options. Returns: what runs the command once they are read, and gives the exit code
  // of the process; empty where commands below do.
  std::function<int(const Invocation&)> (*add)(CLI::App* command);
  Needs needs = Needs::Nothing;
};

// In the order of --help.
std::span<const Command> commands();

}  // namespace rubato::cli
